// The draw; see draw.h. Scratch space belongs to the thread and grows to one row.
#include "sampling/draw.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "sampling/candidates.h"
#include "sampling/row_math.h"

namespace quire {
namespace {

// top_k up to this many works on a list of k ids instead of the row.
constexpr std::int32_t kListLimit = 512;

// The first candidate whose cumulative weight passes u times the total. Sums go block by block to
// stay short.
std::size_t pick(std::span<const float> weight, double u) {
  constexpr std::size_t kBlock = 512;
  thread_local std::vector<double> blocks;
  blocks.clear();
  double total = 0;
  for (std::size_t begin = 0; begin < weight.size(); begin += kBlock) {
    blocks.push_back(row_sum(weight.subspan(begin, std::min(kBlock, weight.size() - begin))));
    total += blocks.back();
  }
  const double target = u * total;
  double sum = 0;
  std::size_t last =
      0;  // the last candidate of a positive weight: where rounding at the very end leads
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (!(sum + blocks[b] > target) && b + 1 < blocks.size()) {
      sum += blocks[b];
      continue;
    }
    const std::size_t end = std::min(weight.size(), (b + 1) * kBlock);
    for (std::size_t i = b * kBlock; i < end; ++i) {
      if (weight[i] == 0) continue;
      sum += static_cast<double>(weight[i]);
      last = i;
      if (sum > target) return i;
    }
    if (weight[last] > 0 && blocks[b] > 0) return last;
  }
  for (std::size_t i = weight.size(); i-- > 0;) {
    if (weight[i] > 0) return i;
  }
  QUIRE_CHECK(false, "a row of {} candidates has no weight", weight.size());
}

// The filters in their order. True when any was on.
bool apply_filters(std::span<const float> logits, float max, const SamplingParams& params,
                   double xtc_number, Candidates* c) {
  const bool limited = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < logits.size();
  const bool xtc = xtc_number < params.xtc_probability;
  if (params.min_p > 0) drop_below(c, params.min_p);
  if (limited && c->ids.empty()) keep_top_k(c, params.top_k);
  if (params.typical_p < 1) keep_typical(c, params.typical_p);
  if (params.top_p < 1) keep_top_p(c, params.top_p);
  if (xtc) drop_top_choices(logits, max, params.xtc_threshold, c);
  return limited || xtc || params.min_p > 0 || params.typical_p < 1 || params.top_p < 1;
}

void write_processed(std::span<const float> logits, float inverse, const Candidates& c,
                     bool filtered, std::vector<float>* out) {
  out->assign(logits.size(), kMinusInfinity);
  for (std::size_t i = 0; i < c.weight.size(); ++i) {
    const std::size_t token = c.token(i);
    if (!filtered || c.weight[i] > 0) (*out)[token] = logits[token] * inverse;
  }
}

}  // namespace

TokenId draw_token(std::span<const float> logits, const SamplingParams& params, DrawNumbers numbers,
                   std::vector<float>* processed) {
  thread_local Candidates c;
  const float max = row_max(logits).value;
  c.ids.clear();
  if (params.top_k > 0 && params.top_k <= kListLimit &&
      static_cast<std::size_t>(params.top_k) < logits.size()) {
    top_ids(logits, params.top_k, &c.ids);
    std::sort(c.ids.begin(), c.ids.end());
  }
  const float inverse =
      std::max(static_cast<float>(1.0 / params.temperature), std::numeric_limits<float>::min());
  scale_candidates(logits, max, inverse, &c);
  const bool filtered = apply_filters(logits, max, params, numbers.xtc, &c);
  if (processed != nullptr) write_processed(logits, inverse, c, filtered, processed);
  return static_cast<TokenId>(c.token(pick(c.weight, numbers.token)));
}

}  // namespace quire
