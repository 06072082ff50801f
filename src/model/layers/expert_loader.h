// The experts of a mixture, from any of the ways in which files store them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/layers/mixer.h"
#include "model/layers/mlp.h"
#include "model/layers/weight_loader.h"
#include "model/spec.h"

namespace quire {

// prefix: "model.layers.3."
Result<std::vector<std::unique_ptr<Mlp>>> load_experts(WeightLoader& loader,
                                                       const std::string& prefix,
                                                       std::int64_t hidden, const MoeSpec& spec);

}  // namespace quire
