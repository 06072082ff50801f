// Masks and bias; see logits_transforms.h.
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
  const std::size_t whole = std::min(mask.size(), logits.size() / 32);
  mask_words(logits.data(), mask.data(), whole);
  for (std::size_t i = whole * 32; i < logits.size(); ++i) {
    const std::size_t word = i / 32;
    const std::uint32_t bits = word < mask.size() ? mask[word] : 0u;
    if (((bits >> (i % 32)) & 1u) == 0) logits[i] = kMinusInfinity;
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

}  // namespace quire
