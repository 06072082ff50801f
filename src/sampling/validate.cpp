// Checks sampling parameters before a request enters the engine.
#include <cmath>

#include "sampling/sampling_params.h"

namespace quire {
namespace {

Status check_range(const char* field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return {};
  return field_error(field, "{} must be between {} and {}, got {}", field, low, high, value);
}

Status check_token(const char* field, TokenId id, std::int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return {};
  return field_error(field, "{} holds token id {}, but the vocabulary has ids 0 to {}", field, id,
                     vocab_size - 1);
}

Status check_numbers(const SamplingParams& p) {
  QUIRE_TRY(check_range("temperature", p.temperature, 0, 2));
  if (!(p.top_p > 0 && p.top_p <= 1)) {
    return field_error("top_p", "top_p must be above 0 and at most 1, got {}", p.top_p);
  }
  QUIRE_TRY(check_range("min_p", p.min_p, 0, 1));
  QUIRE_TRY(check_range("presence_penalty", p.presence_penalty, -2, 2));
  QUIRE_TRY(check_range("frequency_penalty", p.frequency_penalty, -2, 2));
  if (!(p.typical_p > 0 && p.typical_p <= 1)) {
    return field_error("typical_p", "typical_p must be above 0 and at most 1, got {}", p.typical_p);
  }
  QUIRE_TRY(check_range("xtc_probability", p.xtc_probability, 0, 1));
  QUIRE_TRY(check_range("xtc_threshold", p.xtc_threshold, 0, 1));
  QUIRE_TRY(check_range("dry_multiplier", p.dry_multiplier, 0, 1e6));
  QUIRE_TRY(check_range("dry_base", p.dry_base, 1, 1e6));
  if (p.dry_allowed_length < 0) {
    return field_error("dry_allowed_length", "dry_allowed_length must be at least 0, got {}",
                       p.dry_allowed_length);
  }
  if (p.dry_penalty_last_n < -1) {
    return field_error("dry_penalty_last_n",
                       "dry_penalty_last_n must be at least 0, or -1 for all tokens, got {}",
                       p.dry_penalty_last_n);
  }
  if (!(std::isfinite(p.repetition_penalty) && p.repetition_penalty > 0)) {
    return field_error("repetition_penalty", "repetition_penalty must be a number above 0, got {}",
                       p.repetition_penalty);
  }
  if (p.top_k < -1) {
    return field_error("top_k", "top_k must be at least 1, or 0 or -1 for no limit, got {}",
                       p.top_k);
  }
  if (p.min_tokens < 0) {
    return field_error("min_tokens", "min_tokens must be at least 0, got {}", p.min_tokens);
  }
  return {};
}

Status check_token_lists(const SamplingParams& p, std::int64_t vocab_size) {
  for (const auto& [id, value] : p.logit_bias) {
    QUIRE_TRY(check_token("logit_bias", id, vocab_size));
    if (!std::isfinite(value)) {
      return field_error("logit_bias", "logit_bias of token id {} must be a number, got {}", id,
                         value);
    }
  }
  for (const TokenId id : p.allowed_token_ids)
    QUIRE_TRY(check_token("allowed_token_ids", id, vocab_size));
  for (const TokenId id : p.logprob_token_ids)
    QUIRE_TRY(check_token("logprob_token_ids", id, vocab_size));
  for (const TokenId id : p.end_token_ids) QUIRE_TRY(check_token("stop_token_ids", id, vocab_size));
  for (const auto& word : p.bad_words) {
    if (word.empty())
      return field_error("bad_words", "bad_words holds an empty word; leave it out");
    for (const TokenId id : word) QUIRE_TRY(check_token("bad_words", id, vocab_size));
  }
  return {};
}

Status check_logprobs(const char* field, std::int32_t count, std::int64_t vocab_size) {
  if (count >= -1 && count <= vocab_size) return {};
  return field_error(field, "{} must be between 0 and {}, got {}", field, vocab_size, count);
}

}  // namespace

Status validate_sampling_params(const SamplingParams& params, std::int64_t vocab_size) {
  QUIRE_TRY(check_numbers(params));
  QUIRE_TRY(check_token_lists(params, vocab_size));
  QUIRE_TRY(check_logprobs("logprobs", params.logprobs, vocab_size));
  return check_logprobs("prompt_logprobs", params.prompt_logprobs, vocab_size);
}

}  // namespace quire
