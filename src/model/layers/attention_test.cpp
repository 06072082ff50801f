// Attention, whole layers of tiny shapes, against the obvious loop in double; and that the ways in
// which files store the same weights give the same bits.
#include "model/layers/attention.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "model/layers/attention_test_util.h"

namespace quire {
namespace {

using namespace testing_support;  // NOLINT

Result<std::unique_ptr<Mixer>> load(const MemoryWeights& weights, const AttentionSpec& spec) {
  static const auto backend = plain_backend(1);
  WeightLoader loader(weights, *backend);
  return Attention::load(loader, "layer.", kHidden, spec);
}

AttentionSpec small_spec() {
  AttentionSpec spec;
  spec.q_heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 8;
  spec.rope = 0;
  spec.q = "q", spec.k = "k", spec.v = "v", spec.output = "o", spec.qkv = "qkv";
  return spec;
}

void add_weights(MemoryWeights& weights, const AttentionSpec& spec) {
  const std::int64_t q = std::int64_t{spec.q_heads} * spec.head_dim,
                     kv = std::int64_t{spec.kv_heads} * spec.head_dim;
  weights.add("layer.q.weight", Shape{spec.output_gate ? 2 * q : q, kHidden});
  weights.add("layer.k.weight", Shape{kv, kHidden});
  weights.add("layer.v.weight", Shape{kv, kHidden});
  weights.add("layer.v.bias", Shape{kv});
  weights.add("layer.o.weight", Shape{kHidden, q});
  weights.add("layer.q_norm.weight", Shape{spec.head_dim});
  weights.add("layer.k_norm.weight", Shape{spec.head_dim});
  weights.add("layer.sinks", Shape{spec.q_heads});
}

// The same layer written as loops, one query after the other.
Table plain_attention(const MemoryWeights& weights, const AttentionSpec& spec,
                      const RopeConfig& rope, const Table& x) {
  const auto dim = static_cast<std::size_t>(spec.head_dim),
             heads = static_cast<std::size_t>(spec.q_heads);
  const std::size_t share = heads / static_cast<std::size_t>(spec.kv_heads);
  const Table q = plain_linear(weights, "layer.q", x), k = plain_linear(weights, "layer.k", x),
              v = plain_linear(weights, "layer.v", x);
  const auto placed = [&](const Table& rows, std::size_t row, std::size_t head, const char* norm) {
    std::vector<double> h = head_of(rows[row], head, dim);
    const bool normed = spec.q_norm.kind == NormKind::kRms;
    if (normed && !spec.norm_after_rope) plain_rms(h, weights.values(norm), 1e-5);
    if (spec.rope >= 0) rotate(h, row, rope);
    if (normed && spec.norm_after_rope) plain_rms(h, weights.values(norm), 1e-5);
    return h;
  };
  Table mixed(x.size());
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::vector<double> query =
          placed(q, r, spec.output_gate ? 2 * h : h, "layer.q_norm.weight");
      const auto score = [&](std::size_t key) {
        double s = dot(query, placed(k, key, h / share, "layer.k_norm.weight")) *
                   (spec.scale != 0 ? static_cast<double>(spec.scale)
                                    : 1 / std::sqrt(static_cast<double>(dim)));
        if (spec.temperature_scale != 0)
          s *= 1 + static_cast<double>(spec.temperature_scale) *
                       std::log1p(std::floor(static_cast<double>(r + 1) /
                                             static_cast<double>(spec.temperature_floor)));
        if (spec.soft_cap > 0) s = spec.soft_cap * std::tanh(s / spec.soft_cap);
        if (!spec.alibi_slopes.empty())
          s += spec.alibi_slopes[h] * (static_cast<double>(key) - static_cast<double>(r));
        return s;
      };
      const auto sees = [&](std::size_t key) {
        const auto window = static_cast<std::size_t>(spec.window),
                   chunk = static_cast<std::size_t>(spec.chunk);
        return (window == 0 || key + window > r) && (chunk == 0 || key / chunk == r / chunk);
      };
      const double sink =
          spec.sinks.empty() ? 0 : std::exp(static_cast<double>(weights.values("layer.sinks")[h]));
      std::vector<double> out = mix(
          score, sees, r + 1, [&](std::size_t key) { return head_of(v[key], h / share, dim); },
          sink);
      for (std::size_t d = 0; spec.output_gate && d < dim; ++d)
        out[d] /= 1 + std::exp(-q[r][(2 * h + 1) * dim + d]);
      mixed[r].insert(mixed[r].end(), out.begin(), out.end());
    }
  }
  return plain_linear(weights, "layer.o", mixed);
}

TEST(Attention, EveryOptionFollowsThePlainLoop) {
  const NormSpec q_norm{NormKind::kRms, "q_norm", false, 0, 1e-5f},
      k_norm{NormKind::kRms, "k_norm", false, 0, 1e-5f};
  using Change = std::function<void(AttentionSpec&)>;
  const std::pair<const char*, Change> options[] = {
      {"plain", [](AttentionSpec&) {}},
      {"no rope", [](AttentionSpec& s) { s.rope = -1; }},
      {"window", [](AttentionSpec& s) { s.window = 5; }},
      {"chunk", [](AttentionSpec& s) { s.chunk = 4; }},
      {"soft cap, scale", [](AttentionSpec& s) { s.soft_cap = 2, s.scale = 0.9f; }},
      {"sinks", [](AttentionSpec& s) { s.sinks = "sinks"; }},
      {"alibi",
       [](AttentionSpec& s) {
         s.rope = -1, s.alibi_slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
       }},
      {"norms", [&](AttentionSpec& s) { s.q_norm = q_norm, s.k_norm = k_norm; }},
      {"norms after rope",
       [&](AttentionSpec& s) { s.q_norm = q_norm, s.k_norm = k_norm, s.norm_after_rope = true; }},
      {"temperature",
       [](AttentionSpec& s) { s.rope = -1, s.temperature_scale = 0.4f, s.temperature_floor = 4; }},
      {"gate", [](AttentionSpec& s) { s.output_gate = true; }},
  };
  const auto x = random_rows(kRows, kHidden, 3);
  for (const auto& [name, change] : options) {
    for (const bool interleaved : {false, true}) {
      SCOPED_TRACE(name);
      AttentionSpec spec = small_spec();
      change(spec);
      MemoryWeights weights;
      add_weights(weights, spec);
      const RopeConfig rope = rope_of(6, interleaved);
      const auto layer = load(weights, spec);
      ASSERT_TRUE(layer) << layer.error().message;
      expect_near(run(**layer, x, rope), plain_attention(weights, spec, rope, to_table(x, kHidden)),
                  2e-5);
    }
  }
}

// Rows of `source` in another order, as a fused matrix of another layout.
std::vector<float> reordered(
    const std::vector<std::pair<const std::vector<float>*, std::int64_t>>& heads,
    std::int64_t dim) {
  std::vector<float> all;
  for (const auto& [matrix, head] : heads) {
    const auto first = matrix->begin() + head * dim * kHidden;
    all.insert(all.end(), first, first + dim * kHidden);
  }
  return all;
}

TEST(Attention, EveryLayoutOfTheSameWeightsGivesTheSameBits) {
  AttentionSpec spec = small_spec();
  spec.ignore_bias = true;
  MemoryWeights weights;
  add_weights(weights, spec);
  const auto x = random_rows(kRows, kHidden, 3);
  const RopeConfig rope = rope_of(8, false);
  const auto expected = run(**load(weights, spec), x, rope);
  const auto &q = weights.values("layer.q.weight"), &k = weights.values("layer.k.weight"),
             &v = weights.values("layer.v.weight");
  const std::int64_t dim = spec.head_dim, rows = 8 * dim;

  spec.layout = QkvLayout::kFused;
  weights.set(
      "layer.qkv.weight", Shape{rows, kHidden},
      reordered({{&q, 0}, {&q, 1}, {&q, 2}, {&q, 3}, {&k, 0}, {&k, 1}, {&v, 0}, {&v, 1}}, dim));
  EXPECT_EQ(run(**load(weights, spec), x, rope), expected);

  spec.layout = QkvLayout::kPerGroup;
  const auto grouped =
      reordered({{&q, 0}, {&q, 1}, {&k, 0}, {&v, 0}, {&q, 2}, {&q, 3}, {&k, 1}, {&v, 1}}, dim);
  weights.set("layer.qkv.weight", Shape{rows, kHidden}, grouped);
  EXPECT_EQ(run(**load(weights, spec), x, rope), expected);

  spec.transposed = true;
  const auto transpose = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    std::vector<float> turned;
    const std::vector<float> from = weights.values(name);
    for (std::int64_t c = 0; c < inputs; ++c)
      for (std::int64_t r = 0; r < outputs; ++r)
        turned.push_back(from[static_cast<std::size_t>(r * inputs + c)]);
    weights.set(name, Shape{inputs, outputs}, turned);
  };
  transpose("layer.qkv.weight", rows, kHidden);
  transpose("layer.o.weight", kHidden, 4 * dim);
  EXPECT_EQ(run(**load(weights, spec), x, rope), expected);
}

TEST(Attention, RefusesHeadsThatDoNotDivide) {
  AttentionSpec spec = small_spec();
  spec.q_heads = 3;
  const auto layer = load(MemoryWeights(), spec);
  ASSERT_FALSE(layer);
  EXPECT_NE(layer.error().message.find("3 query heads"), std::string::npos);
}

}  // namespace
}  // namespace quire
