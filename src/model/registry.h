// Architectures by name: one table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "weights/weight_source.h"

namespace quire {

// Builds the model that `config` describes, packing its weights for `backend` (which outlives it).
// Pages of the weight file are released as they are packed. kUnsupported names the architecture and
// lists those known.
Result<std::unique_ptr<Model>> create_model(const ModelConfig& config, const WeightSource& weights,
                                            Backend& backend);
std::vector<std::string> known_architectures();

}  // namespace quire
