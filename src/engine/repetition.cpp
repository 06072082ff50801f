#include "engine/repetition.h"

#include <algorithm>

namespace quire {

bool repeats(std::span<const TokenId> generated, const RepetitionRule& rule) {
  const std::size_t n = generated.size();
  const auto count = static_cast<std::size_t>(rule.min_count);
  const auto longest =
      std::min<std::size_t>(static_cast<std::size_t>(rule.max_pattern_size), n / count);
  for (auto size = static_cast<std::size_t>(rule.min_pattern_size); size <= longest; ++size) {
    // Repeated: each token equals the one a pattern later. From the end: most end soon.
    std::size_t equal = 0;
    const std::size_t wanted = size * (count - 1);
    while (equal < wanted && generated[n - 1 - equal] == generated[n - 1 - equal - size]) ++equal;
    if (equal == wanted) return true;
  }
  return false;
}

}  // namespace quire
