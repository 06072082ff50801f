// DRY; see dry.h. Lengths of repeats come from the Z function of the reversed window (Gusfield,
// 1997), which is linear.
#include "sampling/dry.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sampling/row_math.h"

namespace quire {
namespace {

// Tokens at the window's end behind its last breaker: a repeat is never longer.
std::size_t tokens_behind_breaker(std::span<const TokenId> window, const DryBreakers& breakers) {
  for (std::size_t back = 0; back < window.size(); ++back) {
    const std::size_t head = window.size() - 1 - back;
    const auto found = breakers.find(window[head]);
    if (found == breakers.end()) continue;
    bool complete = false;
    std::size_t longest = 0;
    for (const std::vector<TokenId>& tail : found->second) {
      const auto after = window.subspan(head + 1);
      if (tail.size() > after.size() || !std::equal(tail.begin(), tail.end(), after.begin()))
        continue;
      complete = true;
      longest = std::max(longest, tail.size());
    }
    if (complete) return back - longest;
  }
  return window.size();
}

// z[k]: how many tokens before (and with) the one k from the end equal those at the end.
void repeat_lengths(std::span<const TokenId> window, std::vector<std::uint32_t>* z) {
  const std::size_t n = window.size();
  z->assign(n, 0);
  const auto at = [&](std::size_t back) { return window[n - 1 - back]; };
  std::size_t left = 0, right = 0;  // the match that reaches farthest: [left, right)
  for (std::size_t k = 1; k < n; ++k) {
    std::size_t length = k < right ? std::min<std::size_t>(right - k, (*z)[k - left]) : 0;
    while (k + length < n && at(length) == at(k + length)) ++length;
    (*z)[k] = static_cast<std::uint32_t>(length);
    if (k + length > right) {
      left = k;
      right = k + length;
    }
  }
}

bool is_single_breaker(const DryBreakers& breakers, TokenId token) {
  const auto found = breakers.find(token);
  return found != breakers.end() &&
         std::ranges::any_of(found->second, [](const auto& tail) { return tail.empty(); });
}

}  // namespace

void apply_dry(std::span<float> logits, const SamplingParams& params,
               std::span<const TokenId> window) {
  static const DryBreakers kNone;
  const DryBreakers& breakers = params.dry_breakers ? *params.dry_breakers : kNone;
  const auto allowed = static_cast<std::size_t>(params.dry_allowed_length);
  if (window.size() <= allowed) return;
  const std::size_t limit = tokens_behind_breaker(window, breakers);
  if (limit < allowed) return;
  thread_local std::vector<std::uint32_t> lengths;
  thread_local std::vector<std::pair<TokenId, std::uint32_t>> costs;  // continuation, its repeat
  repeat_lengths(window, &lengths);
  costs.clear();
  for (std::size_t k = 1; k < window.size(); ++k) {
    const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(lengths[k], limit));
    if (length >= allowed) costs.emplace_back(window[window.size() - k], length);
  }
  std::sort(costs.begin(), costs.end());
  // The greatest power that f32 holds.
  const double max_power = params.dry_base > 1.000001 ? 88.7228391 / std::log(params.dry_base) : 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const auto [token, length] = costs[i];
    if (i + 1 < costs.size() && costs[i + 1].first == token) continue;  // the longest comes last
    if (is_single_breaker(breakers, token)) continue;
    auto power = static_cast<double>(length - allowed);
    if (max_power > 0) power = std::min(power, std::floor(max_power));
    float& logit = logits[static_cast<std::size_t>(token)];
    if (logit == kMinusInfinity) continue;
    const double cost = params.dry_multiplier * std::pow(params.dry_base, power);
    logit = static_cast<float>(std::max(static_cast<double>(logit) - cost,
                                        -static_cast<double>(std::numeric_limits<float>::max())));
  }
}

}  // namespace quire
