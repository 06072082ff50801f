// Log-probabilities of one row: log-softmax, as float64 where sums are concerned.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sampling/row_math.h"
#include "sampling/sampler.h"

namespace quire {
namespace {

// NaN and plus infinity never reach an answer.
float sane(float x) {
  if (!(x >= kMinusInfinity)) return kMinusInfinity;
  return std::min(x, std::numeric_limits<float>::max());
}

std::int32_t rank_of(std::span<const float> logits, TokenId token) {
  const float value = sane(logits[static_cast<std::size_t>(token)]);
  std::int32_t better = 0;
  const auto before = logits.first(static_cast<std::size_t>(token));
  if (value == kMinusInfinity) {  // equal to every NaN as well
    for (const float x : logits) better += x > value ? 1 : 0;
    for (const float x : before) better += sane(x) == value ? 1 : 0;
    return better + 1;
  }
  const float raw = logits[static_cast<std::size_t>(token)];
  for (const float x : logits) better += x > raw ? 1 : 0;
  for (const float x : before) better += x == raw ? 1 : 0;
  return better + 1;
}

}  // namespace

void Sampler::find_logprobs(std::span<const float> logits, TokenId token,
                            const LogprobsQuery& query, TokenLogprobs* out) {
  QUIRE_CHECK(token >= 0 && static_cast<std::size_t>(token) < logits.size(), "token {} of {}",
              token, logits.size());
  double log_total = 0;
  if (!query.as_logits) {
    const float max = std::min(row_max(logits).value, std::numeric_limits<float>::max());
    // A row of nothing but minus infinity has no distribution: everything is impossible.
    if (max != kMinusInfinity)
      log_total = static_cast<double>(max) + std::log(row_sum_exp(logits, max));
  }
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(static_cast<double>(sane(logits[static_cast<std::size_t>(id)])) -
                              log_total);
  };
  out->token = token;
  out->logprob = logprob(token);
  out->rank = rank_of(logits, token);
  out->top.clear();
  if (!query.ids.empty()) {
    for (const TokenId id : query.ids) out->top.emplace_back(id, logprob(id));
    return;
  }
  thread_local std::vector<TokenId> best;
  top_ids(logits, query.top_count, &best);
  out->top.reserve(best.size());
  for (const TokenId id : best) out->top.emplace_back(id, logprob(id));
}

}  // namespace quire
