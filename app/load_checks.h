// Checks of a model's parts against each other and of its weights, done while it loads.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "text/tokenizer.h"
#include "weights/model_config.h"
#include "weights/weight_source.h"

namespace quire {

// Ids that the tokenizer may give but the embedding has no row for: an error when ordinary text
// could give one, a logged warning when only special tokens do (Gemma 3's text models have such a
// token). vocab_size: rows of the embedding.
Status check_vocabulary(const Tokenizer& tokenizer, std::int64_t vocab_size);

// The sampling defaults, from wherever the options took them. vocab_size: rows of the embedding.
Status check_generation(const ModelConfig::Generation& generation, std::int64_t vocab_size,
                        const OpenOptions& options);

// --check-weights: the first tensor with a NaN or an infinity is named. Tensors that the model left
// unused are not looked at, so the model must have been made.
Status check_finite(const WeightSource& weights);

}  // namespace quire
