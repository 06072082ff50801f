// How one choice is drawn. Validated by the layer that makes it (validate_sampling_params);
// immutable after.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tensor/pooling.h"

namespace quire {

inline constexpr double kGreedyTemperature = 1e-5;  // below: greedy

// What log-probabilities of generated tokens tell: of the model's own logits, or of what the
// processors and filters have left; normalised, or as they are.
enum class LogprobsMode : std::uint8_t {
  kRawLogprobs,
  kProcessedLogprobs,
  kRawLogits,
  kProcessedLogits
};

// Token sequences that DRY lets repeat and looks no farther back than: first token -> what must
// follow it (nothing: the token alone).
using DryBreakers = std::unordered_map<TokenId, std::vector<std::vector<TokenId>>>;

struct SamplingParams {
  double temperature = 1.0;
  std::int32_t top_k = 0;  // 0: off
  double top_p = 1.0;
  double min_p = 0.0;
  double typical_p = 1.0;
  double xtc_probability = 0.0, xtc_threshold = 0.1;  // llama.cpp's XTC
  double dry_multiplier = 0.0, dry_base = 1.75;       // llama.cpp's DRY; multiplier 0: off
  std::int32_t dry_allowed_length = 2;                // repeats of this many tokens begin to cost
  std::int32_t dry_penalty_last_n = -1;               // tokens looked at; -1: all, 0: off
  std::shared_ptr<const DryBreakers> dry_breakers;    // null: none
  double presence_penalty = 0.0, frequency_penalty = 0.0;  // over generated tokens
  double repetition_penalty = 1.0;                         // over prompt and generated tokens
  std::uint64_t seed = 0;    // resolved: a request without one drew it
  std::uint32_t choice = 0;  // which of a request's answers (n > 1): part of the key of its draws
  std::vector<std::pair<TokenId, float>> logit_bias;  // clamped to [-100, 100]
  std::vector<TokenId> allowed_token_ids;             // empty: all
  std::vector<std::vector<TokenId>> bad_words;        // sequences that must not be completed
  std::int32_t min_tokens = 0;                        // no end or stop token before this many
  std::int32_t logprobs = -1;  // top count per generated token; 0: the chosen one only; -1: none
  std::vector<TokenId> logprob_token_ids;  // given in place of the top ones; needs logprobs
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
  std::int32_t prompt_logprobs = -1;  // as logprobs, for prompt tokens; always raw
  Pooling pooling = Pooling::kNone;   // an embedding of the prompt is wanted; nothing is drawn
  std::vector<TokenId>
      end_token_ids;  // masked while fewer than min_tokens are there (eos + stop ids)

  bool greedy() const { return temperature < kGreedyTemperature; }
  bool dry() const { return dry_multiplier != 0 && dry_penalty_last_n != 0; }
};

// Ranges as vLLM documents them; vocab_size bounds every token id. Errors name the field.
Status validate_sampling_params(const SamplingParams& params, std::int64_t vocab_size);

}  // namespace quire
