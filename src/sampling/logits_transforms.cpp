// Masks, bias and penalties; see logits_transforms.h.
#include "sampling/logits_transforms.h"

#include <algorithm>

#include "sampling/row_math.h"

namespace quire {
namespace {

float& at(std::span<float> logits, TokenId id) { return logits[static_cast<std::size_t>(id)]; }

// Keeps a finite logit finite, so that a large bias or penalty never makes plus infinity.
float clamp_finite(float x) { return std::min(x, std::numeric_limits<float>::max()); }

}  // namespace

void apply_bit_mask(std::span<float> logits, std::span<const std::uint32_t> mask) {
  for (std::size_t word = 0, begin = 0; begin < logits.size(); ++word, begin += 32) {
    const std::uint32_t bits = word < mask.size() ? mask[word] : 0u;
    if (bits == ~0u) continue;
    const std::size_t end = std::min(logits.size(), begin + 32);
    for (std::size_t i = begin; i < end; ++i) {
      if (((bits >> (i - begin)) & 1u) == 0) logits[i] = kMinusInfinity;
    }
  }
}

void apply_allowed(std::span<float> logits, std::span<const TokenId> allowed) {
  if (allowed.empty()) return;
  auto next = logits.begin();
  for (const TokenId id : allowed) {
    std::fill(next, logits.begin() + id, kMinusInfinity);
    next = logits.begin() + id + 1;
  }
  std::fill(next, logits.end(), kMinusInfinity);
}

void apply_banned(std::span<float> logits, std::span<const TokenId> ids) {
  for (const TokenId id : ids) at(logits, id) = kMinusInfinity;
}

void apply_bad_words(std::span<float> logits, std::span<const std::vector<TokenId>> bad_words,
                     std::span<const TokenId> tail) {
  for (const std::vector<TokenId>& word : bad_words) {
    if (word.empty()) continue;
    const std::size_t prefix = word.size() - 1;
    if (prefix > tail.size()) continue;
    if (std::equal(word.begin(), word.end() - 1,
                   tail.end() - static_cast<std::ptrdiff_t>(prefix))) {
      at(logits, word.back()) = kMinusInfinity;
    }
  }
}

void apply_bias(std::span<float> logits, std::span<const std::pair<TokenId, float>> bias) {
  for (const auto& [id, value] : bias) {
    at(logits, id) = clamp_finite(at(logits, id) + std::clamp(value, -100.0f, 100.0f));
  }
}

TokenHistory::TokenHistory(const SamplingParams& params, std::span<const TokenId> prompt,
                           std::span<const TokenId> generated) {
  counts_prompt_ = params.repetition_penalty != 1.0;
  counts_ = counts_prompt_ || params.frequency_penalty != 0 || params.presence_penalty != 0;
  for (const auto& word : params.bad_words) {
    if (!word.empty()) tail_limit_ = std::max(tail_limit_, word.size() - 1);
  }
  num_tokens_ = static_cast<std::int64_t>(prompt.size());
  if (counts_prompt_) {
    for (const TokenId token : prompt) note(token, false);
  }
  const std::size_t kept = std::min(tail_limit_, prompt.size());
  tail_.assign(prompt.end() - static_cast<std::ptrdiff_t>(kept), prompt.end());
  for (const TokenId token : generated) append(token);
}

void TokenHistory::note(TokenId token, bool generated) {
  const auto [place, is_new] = seen_index_.try_emplace(token, seen_.size());
  if (is_new) seen_.push_back({token, 0});
  if (generated) ++seen_[place->second].generated_count;
}

void TokenHistory::append(TokenId token) {
  ++num_tokens_;
  ++num_generated_;
  if (counts_) note(token, true);
  if (tail_limit_ == 0) return;
  if (tail_.size() == tail_limit_) tail_.erase(tail_.begin());
  tail_.push_back(token);
}

void TokenHistory::apply_penalties(std::span<float> logits, const SamplingParams& params) const {
  if (!counts_) return;
  const auto repetition = static_cast<float>(params.repetition_penalty);
  const auto frequency = static_cast<float>(params.frequency_penalty);
  const auto presence = static_cast<float>(params.presence_penalty);
  for (const Seen& seen : seen_) {
    float& logit = at(logits, seen.token);
    if (logit == kMinusInfinity) continue;  // banned stays banned
    float x = logit > 0 ? logit / repetition : logit * repetition;
    if (seen.generated_count > 0) {
      x -= frequency * static_cast<float>(seen.generated_count);
      x -= presence;
    }
    logit = clamp_finite(x);
  }
}

}  // namespace quire
