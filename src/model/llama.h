// Llama 2 and 3, SmolLM2, Mistral: pre-norm decoder with grouped-query attention, rotary positions and a gated MLP.
#pragma once

#include <memory>

#include "model/model.h"
#include "weights/weight_source.h"

namespace quire {

Result<std::unique_ptr<Model>> create_llama(const ModelConfig& config, const WeightSource& weights, Backend& backend);

}  // namespace quire
