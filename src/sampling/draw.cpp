// The draw; see draw.h. Scratch space belongs to the thread and grows to one row.
#include "sampling/draw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "sampling/row_math.h"

namespace quire {
namespace {

constexpr std::int32_t kListLimit =
    512;  // top_k up to this many works on a list of k ids instead of the row

// Candidates in ascending id: scaled logits (<= 0) and weights (0: dropped).
struct Candidates {
  std::vector<TokenId> ids;  // empty: candidate i is token i
  std::vector<float> scaled, weight;
  std::vector<std::uint32_t> likely;  // candidates that may be kept
  std::vector<std::uint32_t> edge;    // those of the bucket in which a limit is passed
};

// Buckets of -scaled by its float bits: 32 per octave from 2^-20 to 2^7, so that a limit is found
// by one pass over the row and an exact selection inside one narrow bucket.
constexpr int kBucketShift = 18;
constexpr std::int32_t kFirstBucket = (127 - 20) << 5;
constexpr std::int32_t kBuckets = 27 * 32;
inline std::int32_t bucket_of(float scaled) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(-scaled) & 0x7fffffff;
  return std::clamp((bits >> kBucketShift) - kFirstBucket, 0, kBuckets - 1);
}

void scale(std::span<const float> logits, float max, double temperature, Candidates* c) {
  const float inverse =
      std::max(static_cast<float>(1.0 / temperature), std::numeric_limits<float>::min());
  const std::size_t count = c->ids.empty() ? logits.size() : c->ids.size();
  c->scaled.resize(count);
  c->weight.resize(count);
  float* scaled = c->scaled.data();
  float* weight = c->weight.data();
  if (c->ids.empty()) {
    for (std::size_t i = 0; i < count; ++i) scaled[i] = (logits[i] - max) * inverse;
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      scaled[i] = (logits[static_cast<std::size_t>(c->ids[i])] - max) * inverse;
    }
  }
  for (std::size_t i = 0; i < count; ++i) weight[i] = exp_nonpositive(scaled[i]);
}

// Of the candidates in c->edge keeps the best ones until `before` plus their measure reaches the
// limit; drops the rest.
template <class Measure>
void cut_edge(Candidates* c, double before, double limit, Measure measure) {
  std::vector<std::uint32_t>& edge = c->edge;
  const auto better = [&](std::uint32_t a, std::uint32_t b) {
    return c->scaled[a] > c->scaled[b] || (c->scaled[a] == c->scaled[b] && a < b);
  };
  std::size_t begin = 0, end = edge.size();
  const auto it = [&](std::size_t i) { return edge.begin() + static_cast<std::ptrdiff_t>(i); };
  while (end - begin > 32) {  // quickselect by measure: the limit lies in [begin, end)
    const std::size_t middle = begin + (end - begin) / 2;
    std::nth_element(it(begin), it(middle), it(end), better);
    double half = 0;
    for (std::size_t i = begin; i < middle; ++i) half += measure(edge[i]);
    if (before + half >= limit) {
      end = middle;
    } else {
      before += half;
      begin = middle;
    }
  }
  std::sort(it(begin), it(end), better);
  while (begin < end && before < limit) before += measure(edge[begin++]);
  for (std::size_t i = begin; i < edge.size(); ++i) c->weight[edge[i]] = 0;
}

// Keeps the shortest run of best candidates whose measures reach `limit`. Candidates of a weight
// under `floor` (> 0) are known to lie beyond it.
template <class Measure>
void keep_best(Candidates* c, float floor, double limit, Measure measure) {
  const std::size_t count = c->weight.size();
  c->likely.resize(count);
  std::size_t num_likely = 0;
  for (std::size_t i = 0; i < count; ++i) {  // without a branch: half of them may go either way
    c->likely[num_likely] = static_cast<std::uint32_t>(i);
    num_likely += c->weight[i] >= floor ? 1 : 0;
  }
  c->likely.resize(num_likely);
  std::array<double, kBuckets> total{};
  for (const std::uint32_t i : c->likely) {
    total[static_cast<std::size_t>(bucket_of(c->scaled[i]))] += measure(i);
  }
  std::int32_t bucket = 0;
  double before = 0;
  while (bucket < kBuckets - 1 && before + total[static_cast<std::size_t>(bucket)] < limit) {
    before += total[static_cast<std::size_t>(bucket++)];
  }
  c->edge.resize(num_likely);
  std::size_t num_edge = 0;
  for (const std::uint32_t i : c->likely) {
    const std::int32_t b = bucket_of(c->scaled[i]);
    c->edge[num_edge] = i;
    num_edge += b == bucket ? 1 : 0;
    c->weight[i] = b > bucket ? 0.0f : c->weight[i];
  }
  c->edge.resize(num_edge);
  for (float& weight : c->weight) weight = weight >= floor ? weight : 0.0f;
  cut_edge(c, before, limit, measure);
}

void keep_top_k(Candidates* c, std::int32_t k) {
  keep_best(c, std::numeric_limits<float>::min(), k, [](std::size_t) { return 1.0; });
}

void keep_top_p(Candidates* c, double top_p) {
  const double total = row_sum(c->weight);
  const double limit = top_p * total;
  // Whatever weighs less than an even share of the tail sums up to less than the tail, so it can
  // only be in the tail.
  const double share = (total - limit) / static_cast<double>(c->weight.size()) * (1 - 1e-6);
  const float floor = std::max(static_cast<float>(share), std::numeric_limits<float>::min());
  keep_best(c, floor, limit, [c](std::size_t i) { return static_cast<double>(c->weight[i]); });
}

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

}  // namespace

TokenId draw_token(std::span<const float> logits, const SamplingParams& params, double u) {
  thread_local Candidates c;
  const float max = row_max(logits).value;
  const auto vocab = static_cast<std::int32_t>(logits.size());
  const bool limited = params.top_k > 0 && params.top_k < vocab;
  c.ids.clear();
  if (limited && params.top_k <= kListLimit) {
    top_ids(logits, params.top_k, &c.ids);
    std::sort(c.ids.begin(), c.ids.end());
  }
  scale(logits, max, params.temperature, &c);
  if (params.min_p > 0) {
    const auto floor = static_cast<float>(params.min_p);  // the best candidate weighs 1
    for (float& weight : c.weight) weight = weight >= floor ? weight : 0.0f;
  }
  if (limited && c.ids.empty()) keep_top_k(&c, params.top_k);
  if (params.top_p < 1) keep_top_p(&c, params.top_p);
  const std::size_t picked = pick(c.weight, u);
  return c.ids.empty() ? static_cast<TokenId>(picked) : c.ids[picked];
}

}  // namespace quire
