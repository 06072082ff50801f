// Filters of a draw; see candidates.h.
#include "sampling/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "sampling/row_math.h"

namespace quire {
namespace {

// Buckets of -scaled by its float bits: 32 per octave from 2^-20 to 2^7, so that a limit is found
// by one pass over the row and an exact selection inside one narrow bucket.
constexpr int kBucketShift = 18;
constexpr std::int32_t kFirstBucket = (127 - 20) << 5;
constexpr std::int32_t kBuckets = 27 * 32;
inline std::int32_t bucket_of(float scaled) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(-scaled) & 0x7fffffff;
  return std::clamp((bits >> kBucketShift) - kFirstBucket, 0, kBuckets - 1);
}

QUIRE_ROW_LOOP void scale_row(const float* logits, std::size_t count, float max, float factor,
                              float* scaled) {
  for (std::size_t i = 0; i < count; ++i) scaled[i] = (logits[i] - max) * factor;
}
QUIRE_ROW_LOOP void weigh_row(const float* scaled, std::size_t count, float* weight) {
  for (std::size_t i = 0; i < count; ++i) weight[i] = exp_nonpositive(scaled[i]);
}
QUIRE_ROW_LOOP void drop_light(float floor, std::size_t count, float* weight) {
  for (std::size_t i = 0; i < count; ++i) weight[i] = weight[i] >= floor ? weight[i] : 0.0f;
}

// Of the candidates in c->edge keeps the best ones until `before` plus their measure reaches the
// limit; drops the rest.
template <class Better, class Measure>
void cut_edge(Candidates* c, double before, double limit, Better better, Measure measure) {
  std::vector<std::uint32_t>& edge = c->edge;
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
  const std::size_t num_likely = find_at_least(c->weight, floor, c->likely.data());
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
  c->edge.reserve(count);  // once: how many are likely varies from row to row
  c->edge.resize(num_likely);
  std::size_t num_edge = 0;
  for (const std::uint32_t i : c->likely) {
    const std::int32_t b = bucket_of(c->scaled[i]);
    c->edge[num_edge] = i;
    num_edge += b == bucket ? 1 : 0;
    c->weight[i] = b > bucket ? 0.0f : c->weight[i];
  }
  c->edge.resize(num_edge);
  drop_light(floor, count, c->weight.data());
  const auto better = [c](std::uint32_t a, std::uint32_t b) {
    return c->scaled[a] > c->scaled[b] || (c->scaled[a] == c->scaled[b] && a < b);
  };
  cut_edge(c, before, limit, better, measure);
}

}  // namespace

void scale_candidates(std::span<const float> logits, float max, float inverse_temperature,
                      Candidates* c) {
  const std::size_t count = c->ids.empty() ? logits.size() : c->ids.size();
  c->scaled.resize(count);
  c->weight.resize(count);
  if (c->ids.empty()) {
    scale_row(logits.data(), count, max, inverse_temperature, c->scaled.data());
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      c->scaled[i] = (logits[static_cast<std::size_t>(c->ids[i])] - max) * inverse_temperature;
    }
  }
  weigh_row(c->scaled.data(), count, c->weight.data());
}

namespace {
// Weight to keep, above 0 whatever rounds: what keeps nothing would leave nothing to draw.
double share_of(double share, double total) {
  return std::max(share * total, std::numeric_limits<double>::min());
}
}  // namespace

void drop_below(Candidates* c, double min_p) {
  drop_light(static_cast<float>(min_p), c->weight.size(), c->weight.data());  // the best weighs 1
}

void keep_top_k(Candidates* c, std::int32_t k) {
  keep_best(c, std::numeric_limits<float>::min(), k, [](std::size_t) { return 1.0; });
}

void keep_top_p(Candidates* c, double top_p) {
  const double total = row_sum(c->weight);
  const double limit = share_of(top_p, total);
  // Whatever weighs less than an even share of the tail sums up to less than the tail, so it can
  // only be in the tail.
  const double share = (total - limit) / static_cast<double>(c->weight.size()) * (1 - 1e-6);
  const float floor = std::max(static_cast<float>(share), std::numeric_limits<float>::min());
  keep_best(c, floor, limit, [c](std::size_t i) { return static_cast<double>(c->weight[i]); });
}

void keep_typical(Candidates* c, double typical_p) {
  const std::size_t count = c->weight.size();
  c->edge.clear();
  c->edge.reserve(count);
  double total = 0, weighted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (c->weight[i] == 0) continue;
    c->edge.push_back(static_cast<std::uint32_t>(i));
    total += static_cast<double>(c->weight[i]);
    weighted += static_cast<double>(c->weight[i]) * static_cast<double>(c->scaled[i]);
  }
  // Surprise is log(total) - scaled, entropy its mean: the logarithm cancels in their distance.
  const double mean = weighted / total;
  c->distance.resize(count);
  for (const std::uint32_t i : c->edge)
    c->distance[i] = std::abs(static_cast<double>(c->scaled[i]) - mean);
  const auto nearer = [c](std::uint32_t a, std::uint32_t b) {
    return c->distance[a] < c->distance[b] || (c->distance[a] == c->distance[b] && a < b);
  };
  cut_edge(c, 0, share_of(typical_p, total), nearer,
           [c](std::size_t i) { return static_cast<double>(c->weight[i]); });
}

void drop_top_choices(std::span<const float> logits, float max, double threshold, Candidates* c) {
  const std::size_t count = c->weight.size();
  double total = 0;
  const auto weight_of = [&](std::size_t i) {
    return static_cast<double>(exp_nonpositive(logits[c->token(i)] - max));
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (c->weight[i] > 0) total += weight_of(i);
  }
  const double limit = threshold * total;
  c->edge.clear();
  std::size_t last = 0;  // place in edge of the least likely one; of equals the higher id
  for (std::size_t i = 0; i < count; ++i) {
    if (c->weight[i] == 0 || weight_of(i) < limit) continue;
    c->edge.push_back(static_cast<std::uint32_t>(i));
    if (c->scaled[i] <= c->scaled[c->edge[last]]) last = c->edge.size() - 1;
  }
  for (std::size_t e = 0; e < c->edge.size(); ++e) {
    if (e != last) c->weight[c->edge[e]] = 0;
  }
}

}  // namespace quire
