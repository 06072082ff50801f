// The sampler: per slot what the past demands, per row the processors in their order, then argmax
// or the draw.
#include "sampling/sampler.h"

#include <algorithm>

#include "base/check.h"
#include "sampling/draw.h"
#include "sampling/logits_transforms.h"
#include "sampling/rng.h"
#include "sampling/row_math.h"

namespace quire {

struct Sampler::Slot {
  Slot(const SamplingParams& p, std::span<const TokenId> prompt, std::span<const TokenId> generated)
      : params(p), history(p, prompt, generated), allowed(p.allowed_token_ids) {
    std::sort(allowed.begin(), allowed.end());
    allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  }

  void apply_bans(std::span<float> logits, std::span<const std::uint32_t> mask) const {
    if (!mask.empty()) apply_bit_mask(logits, mask);
    apply_allowed(logits, allowed);
    apply_bad_words(logits, params.bad_words, history.tail());
    if (history.num_generated() < params.min_tokens) apply_banned(logits, params.end_token_ids);
  }

  TokenId choose(std::span<float> logits, std::span<const std::uint32_t> mask) const;
  TokenId choose_without_logits(std::span<float> scratch,
                                std::span<const std::uint32_t> mask) const;

  SamplingParams params;
  TokenHistory history;
  std::vector<TokenId> allowed;  // ascending, no id twice
};

TokenId Sampler::Slot::choose(std::span<float> logits, std::span<const std::uint32_t> mask) const {
  sanitize_row(logits);
  apply_bans(logits, mask);
  apply_bias(logits, params.logit_bias);
  history.apply_penalties(logits, params);
  const RowMax best = row_max(logits);
  if (best.value == kMinusInfinity) return choose_without_logits(logits, mask);
  if (params.greedy()) return best.id;
  const auto position = static_cast<std::uint64_t>(history.num_tokens());
  return draw_token(logits, params, random_uniform(params.seed, position, 0, params.choice));
}

// Nothing is left to choose from (all banned, or the model gave no numbers): the lowest id that
// breaks the fewest rules, so that a request always gets its token.
TokenId Sampler::Slot::choose_without_logits(std::span<float> scratch,
                                             std::span<const std::uint32_t> mask) const {
  std::fill(scratch.begin(), scratch.end(), 0.0f);
  apply_bans(scratch, mask);
  if (row_max(scratch).value == 0) return row_max(scratch).id;
  std::fill(scratch.begin(), scratch.end(), 0.0f);
  if (!mask.empty()) apply_bit_mask(scratch, mask);
  apply_allowed(scratch, allowed);
  if (row_max(scratch).value == 0) return row_max(scratch).id;
  return allowed.empty() ? 0 : allowed.front();
}

Sampler::Sampler(std::int64_t vocab_size) : vocab_size_(vocab_size) {}
Sampler::~Sampler() = default;

void Sampler::add_slot(SlotId slot, const SamplingParams& params, std::span<const TokenId> prompt,
                       std::span<const TokenId> generated) {
  QUIRE_CHECK(slot.value >= 0, "slot {}", slot.value);
  const auto index = static_cast<std::size_t>(slot.value);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slots_[index] = std::make_unique<Slot>(params, prompt, generated);
}

void Sampler::remove_slot(SlotId slot) {
  const auto index = static_cast<std::size_t>(slot.value);
  if (index < slots_.size()) slots_[index].reset();
}

TokenId Sampler::sample(SlotId slot, std::span<float> logits, std::span<const std::uint32_t> mask,
                        TokenLogprobs* logprobs) {
  QUIRE_CHECK(static_cast<std::int64_t>(logits.size()) == vocab_size_, "{} logits, vocabulary {}",
              logits.size(), vocab_size_);
  const auto index = static_cast<std::size_t>(slot.value);
  QUIRE_CHECK(index < slots_.size() && slots_[index] != nullptr, "slot {} is not in use",
              slot.value);
  Slot& state = *slots_[index];
  const bool with_logprobs = state.params.logprobs >= 0 && logprobs != nullptr;
  thread_local std::vector<float>
      raw;  // log-probabilities are those of the model, before any processor
  if (with_logprobs) raw.assign(logits.begin(), logits.end());
  const TokenId token = state.choose(logits, mask);
  if (with_logprobs) *logprobs = logprobs_of(raw, token, state.params.logprobs);
  state.history.append(token);
  return token;
}

bool Sampler::wants_logprobs(SlotId slot) const {
  const auto index = static_cast<std::size_t>(slot.value);
  return index < slots_.size() && slots_[index] != nullptr && slots_[index]->params.logprobs >= 0;
}

}  // namespace quire
