// The sampler: per slot what the past demands, per row the processors in their order, then argmax
// or the draw.
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sampling/draw.h"
#include "sampling/dry.h"
#include "sampling/logits_transforms.h"
#include "sampling/rng.h"
#include "sampling/row_math.h"
#include "sampling/token_history.h"

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

  // Nothing changes the row before the choice.
  bool untouched(std::span<const std::uint32_t> mask) const {
    return mask.empty() && allowed.empty() && params.bad_words.empty() &&
           params.logit_bias.empty() && !history.penalizes() && !params.dry() &&
           (history.num_generated() >= params.min_tokens || params.end_token_ids.empty());
  }
  TokenId choose(std::span<float> logits, std::span<const std::uint32_t> mask,
                 std::vector<float>* processed) const;
  TokenId choose_without_logits(std::span<float> scratch,
                                std::span<const std::uint32_t> mask) const;

  SamplingParams params;
  TokenHistory history;
  std::vector<TokenId> allowed;  // ascending, no id twice
};

// processed, if given, gets the row that the choice was made from.
TokenId Sampler::Slot::choose(std::span<float> logits, std::span<const std::uint32_t> mask,
                              std::vector<float>* processed) const {
  if (params.greedy() && processed == nullptr && untouched(mask)) {
    const RowMax best = row_max(logits);  // NaN counts as the least anyway
    if (std::isfinite(best.value)) return best.id;
  }
  sanitize_row(logits);
  apply_bans(logits, mask);
  apply_bias(logits, params.logit_bias);
  history.apply_penalties(logits, params);
  if (params.dry()) apply_dry(logits, params, history.dry_window());
  const RowMax best = row_max(logits);
  TokenId token = best.id;
  if (best.value == kMinusInfinity) {
    token = choose_without_logits(logits, mask);
  } else if (!params.greedy()) {
    const auto position = static_cast<std::uint64_t>(history.num_tokens());
    DrawNumbers numbers{random_uniform(params.seed, position, 0, params.choice)};
    if (params.xtc_probability > 0)
      numbers.xtc = random_uniform(params.seed, position, 1, params.choice);
    return draw_token(logits, params, numbers, processed);
  }
  if (processed != nullptr) processed->assign(logits.begin(), logits.end());
  return token;
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
  if (mask.empty()) return allowed.empty() ? 0 : allowed.front();
  std::fill(scratch.begin(), scratch.end(), 0.0f);
  apply_bit_mask(scratch, mask);
  return std::max(0, row_max(scratch).id);
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

Sampler::Slot& Sampler::slot_at(SlotId slot) {
  const auto index = static_cast<std::size_t>(slot.value);
  QUIRE_CHECK(index < slots_.size() && slots_[index] != nullptr, "slot {} is not in use",
              slot.value);
  return *slots_[index];
}

void Sampler::take(SlotId slot, TokenId token) { slot_at(slot).history.append(token); }

TokenId Sampler::sample(SlotId slot, std::span<float> logits, std::span<const std::uint32_t> mask,
                        TokenLogprobs* logprobs) {
  QUIRE_CHECK(static_cast<std::int64_t>(logits.size()) == vocab_size_, "{} logits, vocabulary {}",
              logits.size(), vocab_size_);
  Slot& state = slot_at(slot);
  const SamplingParams& params = state.params;
  const bool with_logprobs = params.logprobs >= 0 && logprobs != nullptr;
  const bool processed = params.logprobs_mode == LogprobsMode::kProcessedLogprobs ||
                         params.logprobs_mode == LogprobsMode::kProcessedLogits;
  thread_local std::vector<float> row;  // what log-probabilities are taken of
  if (with_logprobs && !processed) row.assign(logits.begin(), logits.end());
  const TokenId token = state.choose(logits, mask, with_logprobs && processed ? &row : nullptr);
  if (with_logprobs) {
    const bool as_logits = params.logprobs_mode == LogprobsMode::kRawLogits ||
                           params.logprobs_mode == LogprobsMode::kProcessedLogits;
    find_logprobs(row, token, {params.logprobs, params.logprob_token_ids, as_logits}, logprobs);
  }
  state.history.append(token);
  return token;
}

bool Sampler::wants_logprobs(SlotId slot) const {
  const auto index = static_cast<std::size_t>(slot.value);
  return index < slots_.size() && slots_[index] != nullptr && slots_[index]->params.logprobs >= 0;
}

}  // namespace quire
