// How one choice is drawn. Validated by the layer that makes it (validate_sampling_params);
// immutable after.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

inline constexpr double kGreedyTemperature = 1e-5;  // below: greedy

struct SamplingParams {
  double temperature = 1.0;
  std::int32_t top_k = 0;  // 0: off
  double top_p = 1.0;
  double min_p = 0.0;
  double presence_penalty = 0.0, frequency_penalty = 0.0;  // over generated tokens
  double repetition_penalty = 1.0;                         // over prompt and generated tokens
  std::uint64_t seed = 0;    // resolved: a request without one drew it
  std::uint32_t choice = 0;  // which of a request's answers (n > 1): part of the key of its draws
  std::vector<std::pair<TokenId, float>> logit_bias;  // clamped to [-100, 100]
  std::vector<TokenId> allowed_token_ids;             // empty: all
  std::vector<std::vector<TokenId>> bad_words;        // sequences that must not be completed
  std::int32_t min_tokens = 0;                        // no end or stop token before this many
  std::int32_t logprobs = -1;  // top count per generated token; 0: the chosen one only; -1: none
  std::int32_t prompt_logprobs = -1;  // same for prompt tokens
  std::vector<TokenId>
      end_token_ids;  // masked while fewer than min_tokens are there (eos + stop ids)

  bool greedy() const { return temperature < kGreedyTemperature; }
};

// Ranges as vLLM documents them; vocab_size bounds every token id. Errors name the field.
Status validate_sampling_params(const SamplingParams& params, std::int64_t vocab_size);

}  // namespace quire
