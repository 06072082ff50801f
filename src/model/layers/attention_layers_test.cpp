// Attention and latent attention, whole layers of tiny shapes, against the obvious loops in double; and that the ways in
// which files store the same weights give the same bits.
#include <gtest/gtest.h>

#include <functional>

#include "model/layers/attention.h"
#include "model/layers/mla.h"
#include "model/layers/recurrent_test_util.h"
#include "model/layers/rope.h"

namespace quire {
namespace {

using namespace testing_support;  // NOLINT

constexpr std::int64_t kHidden = 24, kRows = 13;

RopeConfig rope_of(std::int32_t dim, bool interleaved) {
  RopeConfig rope;
  rope.theta = 100;
  rope.rotary_dim = dim;
  rope.interleaved = interleaved;
  return rope;
}

// One sequence from position 0 on, in one step.
std::vector<float> run(Mixer& mixer, const std::vector<float>& x, const RopeConfig& rope_config) {
  const auto backend = plain_backend(2);
  backend->reserve(kRows, 1024);
  KvGeometry geometry;
  geometry.groups = {*mixer.kv_group()};
  geometry.groups[0].num_layers = 1;
  geometry.block_size = 8;
  geometry.dtype = DType::kF32;
  const std::int32_t blocks = 2;
  const auto cache = backend->make_kv_cache(geometry, std::span(&blocks, 1));
  std::vector<std::int32_t> positions;
  for (std::int32_t r = 0; r < kRows; ++r) positions.push_back(r);
  const std::int32_t rows[] = {0, kRows}, start[] = {0}, table[] = {1, 0}, begin[] = {0, 2}, prompt[] = {kRows};
  ModelInput input;
  input.token_ids = input.positions = positions;
  input.groups = {{rows, start, table, begin}};
  input.row_begin = rows;
  input.start_pos = start;
  input.prompt_tokens = prompt;
  Workspace workspace(1 << 20);
  const Rope rope = Rope::create(rope_config).value();
  const RopeTable tables[] = {rope.table(*backend, workspace, input)};
  RecurrentStore states;
  std::vector<float> y(x.size(), 1.0f);
  mixer.forward(*backend, workspace, {input, tables, *cache, states}, x.data(), Epilogue::kAdd, y.data());
  for (float& v : y) v -= 1.0f;
  return y;
}

Result<std::unique_ptr<Mixer>> load(const MemoryWeights& weights, const AttentionSpec& spec) {
  static const auto backend = plain_backend(1);
  WeightLoader loader(weights, *backend);
  return Attention::load(loader, "layer.", kHidden, spec);
}

void rotate(std::vector<double>& head, std::size_t position, const RopeConfig& rope) {
  const auto half = static_cast<std::size_t>(rope.rotary_dim / 2);
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) / std::pow(rope.theta, static_cast<double>(i) / static_cast<double>(half));
    double& a = head[rope.interleaved ? 2 * i : i];
    double& b = head[rope.interleaved ? 2 * i + 1 : i + half];
    const double x = a, y = b;
    a = x * std::cos(angle) - y * std::sin(angle);
    b = y * std::cos(angle) + x * std::sin(angle);
  }
}

std::vector<double> head_of(const std::vector<double>& row, std::size_t head, std::size_t dim) {
  return {row.begin() + static_cast<std::ptrdiff_t>(head * dim), row.begin() + static_cast<std::ptrdiff_t>((head + 1) * dim)};
}

// The softmax of q.k over the keys that `sees` lets through, times the values.
std::vector<double> mix(const std::function<double(std::size_t)>& score, const std::function<bool(std::size_t)>& sees,
                        std::size_t keys, const std::function<std::vector<double>(std::size_t)>& value, double sink_weight) {
  double sum = sink_weight;
  std::vector<double> out;
  for (std::size_t k = 0; k < keys; ++k) {
    if (!sees(k)) continue;
    const double p = std::exp(score(k));
    const std::vector<double> v = value(k);
    out.resize(v.size());
    sum += p;
    for (std::size_t d = 0; d < v.size(); ++d) out[d] += p * v[d];
  }
  for (double& v : out) v /= sum;
  return out;
}
double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
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
  const std::int64_t q = std::int64_t{spec.q_heads} * spec.head_dim, kv = std::int64_t{spec.kv_heads} * spec.head_dim;
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
Table plain_attention(const MemoryWeights& weights, const AttentionSpec& spec, const RopeConfig& rope, const Table& x) {
  const auto dim = static_cast<std::size_t>(spec.head_dim), heads = static_cast<std::size_t>(spec.q_heads);
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
      const std::vector<double> query = placed(q, r, spec.output_gate ? 2 * h : h, "layer.q_norm.weight");
      const auto score = [&](std::size_t key) {
        double s = dot(query, placed(k, key, h / share, "layer.k_norm.weight")) *
                   (spec.scale != 0 ? static_cast<double>(spec.scale) : 1 / std::sqrt(static_cast<double>(dim)));
        if (spec.temperature_scale != 0)
          s *= 1 + static_cast<double>(spec.temperature_scale) *
                       std::log1p(std::floor(static_cast<double>(r + 1) / static_cast<double>(spec.temperature_floor)));
        if (spec.soft_cap > 0) s = spec.soft_cap * std::tanh(s / spec.soft_cap);
        if (!spec.alibi_slopes.empty()) s += spec.alibi_slopes[h] * (static_cast<double>(key) - static_cast<double>(r));
        return s;
      };
      const auto sees = [&](std::size_t key) {
        const auto window = static_cast<std::size_t>(spec.window), chunk = static_cast<std::size_t>(spec.chunk);
        return (window == 0 || key + window > r) && (chunk == 0 || key / chunk == r / chunk);
      };
      const double sink = spec.sinks.empty() ? 0 : std::exp(static_cast<double>(weights.values("layer.sinks")[h]));
      std::vector<double> out =
          mix(score, sees, r + 1, [&](std::size_t key) { return head_of(v[key], h / share, dim); }, sink);
      for (std::size_t d = 0; spec.output_gate && d < dim; ++d) out[d] /= 1 + std::exp(-q[r][(2 * h + 1) * dim + d]);
      mixed[r].insert(mixed[r].end(), out.begin(), out.end());
    }
  }
  return plain_linear(weights, "layer.o", mixed);
}

void expect_near(const std::vector<float>& got, const Table& want, double tolerance) {
  std::size_t i = 0;
  for (const auto& row : want) {
    for (const double v : row) EXPECT_NEAR(static_cast<double>(got[i++]), v, tolerance);
  }
  EXPECT_EQ(i, got.size());
}

TEST(Attention, EveryOptionFollowsThePlainLoop) {
  const NormSpec q_norm{NormKind::kRms, "q_norm", false, 0, 1e-5f}, k_norm{NormKind::kRms, "k_norm", false, 0, 1e-5f};
  using Change = std::function<void(AttentionSpec&)>;
  const std::pair<const char*, Change> options[] = {
      {"plain", [](AttentionSpec&) {}},
      {"no rope", [](AttentionSpec& s) { s.rope = -1; }},
      {"window", [](AttentionSpec& s) { s.window = 5; }},
      {"chunk", [](AttentionSpec& s) { s.chunk = 4; }},
      {"soft cap, scale", [](AttentionSpec& s) { s.soft_cap = 2, s.scale = 0.9f; }},
      {"sinks", [](AttentionSpec& s) { s.sinks = "sinks"; }},
      {"alibi", [](AttentionSpec& s) { s.rope = -1, s.alibi_slopes = {0.5f, 0.25f, 0.125f, 0.0625f}; }},
      {"norms", [&](AttentionSpec& s) { s.q_norm = q_norm, s.k_norm = k_norm; }},
      {"norms after rope", [&](AttentionSpec& s) { s.q_norm = q_norm, s.k_norm = k_norm, s.norm_after_rope = true; }},
      {"temperature", [](AttentionSpec& s) { s.rope = -1, s.temperature_scale = 0.4f, s.temperature_floor = 4; }},
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
      expect_near(run(**layer, x, rope), plain_attention(weights, spec, rope, to_table(x, kHidden)), 2e-5);
    }
  }
}

// Rows of `source` in another order, as a fused matrix of another layout.
std::vector<float> reordered(const std::vector<std::pair<const std::vector<float>*, std::int64_t>>& heads, std::int64_t dim) {
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
  weights.set("layer.qkv.weight", Shape{rows, kHidden},
              reordered({{&q, 0}, {&q, 1}, {&q, 2}, {&q, 3}, {&k, 0}, {&k, 1}, {&v, 0}, {&v, 1}}, dim));
  EXPECT_EQ(run(**load(weights, spec), x, rope), expected);

  spec.layout = QkvLayout::kPerGroup;
  const auto grouped = reordered({{&q, 0}, {&q, 1}, {&k, 0}, {&v, 0}, {&q, 2}, {&q, 3}, {&k, 1}, {&v, 1}}, dim);
  weights.set("layer.qkv.weight", Shape{rows, kHidden}, grouped);
  EXPECT_EQ(run(**load(weights, spec), x, rope), expected);

  spec.transposed = true;
  const auto transpose = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    std::vector<float> turned;
    const std::vector<float> from = weights.values(name);
    for (std::int64_t c = 0; c < inputs; ++c)
      for (std::int64_t r = 0; r < outputs; ++r) turned.push_back(from[static_cast<std::size_t>(r * inputs + c)]);
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

MlaSpec latent_spec(std::int32_t q_lora) {
  MlaSpec spec;
  spec.heads = 3;
  spec.q_lora_rank = q_lora;
  spec.kv_lora_rank = 10;
  spec.nope_dim = 8;
  spec.rope_dim = 4;
  spec.v_dim = 6;
  spec.rope = 0;
  spec.q = "q", spec.q_a = "q_a", spec.q_b = "q_b", spec.kv_a = "kv_a", spec.kv_b = "kv_b", spec.output = "o";
  spec.k_b = "k_b", spec.v_b = "v_b";
  spec.q_norm = {NormKind::kRms, "q_norm", false, 0, 1e-5f};
  spec.kv_norm = {NormKind::kRms, "kv_norm", false, 0, 1e-5f};
  return spec;
}

void add_weights(MemoryWeights& weights, const MlaSpec& spec) {
  const std::int64_t q = std::int64_t{spec.heads} * (spec.nope_dim + spec.rope_dim);
  if (spec.q_lora_rank > 0) {
    weights.add("layer.q_a.weight", Shape{spec.q_lora_rank, kHidden});
    weights.add("layer.q_b.weight", Shape{q, spec.q_lora_rank});
    weights.add("layer.q_norm.weight", Shape{spec.q_lora_rank}, 1.0f);
  } else {
    weights.add("layer.q.weight", Shape{q, kHidden});
  }
  weights.add("layer.kv_a.weight", Shape{spec.kv_lora_rank + spec.rope_dim, kHidden});
  weights.add("layer.kv_norm.weight", Shape{spec.kv_lora_rank}, 1.0f);
  weights.add("layer.kv_b.weight", Shape{std::int64_t{spec.heads} * (spec.nope_dim + spec.v_dim), spec.kv_lora_rank});
  weights.add("layer.o.weight", Shape{kHidden, std::int64_t{spec.heads} * spec.v_dim});
}

// As the paper writes it first: keys and values of every head expanded from the latent.
Table plain_latent_attention(const MemoryWeights& weights, const MlaSpec& spec, const RopeConfig& rope, const Table& x) {
  const auto nope = static_cast<std::size_t>(spec.nope_dim), rope_dim = static_cast<std::size_t>(spec.rope_dim),
             latent = static_cast<std::size_t>(spec.kv_lora_rank), v_dim = static_cast<std::size_t>(spec.v_dim);
  Table q;
  if (spec.q_lora_rank > 0) {
    Table low = plain_linear(weights, "layer.q_a", x);
    for (auto& row : low) plain_rms(row, weights.values("layer.q_norm.weight"), 1e-5);
    q = plain_linear(weights, "layer.q_b", low);
  } else {
    q = plain_linear(weights, "layer.q", x);
  }
  const Table kv = plain_linear(weights, "layer.kv_a", x);
  Table low = columns(kv, 0, latent), shared = columns(kv, latent, rope_dim);
  for (auto& row : low) plain_rms(row, weights.values("layer.kv_norm.weight"), 1e-5);
  for (std::size_t r = 0; r < shared.size(); ++r) rotate(shared[r], r, rope);
  const Table expanded = plain_linear(weights, "layer.kv_b", low);
  Table mixed(x.size());
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t h = 0; h < static_cast<std::size_t>(spec.heads); ++h) {
      const std::vector<double> query = head_of(q[r], h, nope + rope_dim);
      const std::vector<double> plain(query.begin(), query.begin() + static_cast<std::ptrdiff_t>(nope));
      std::vector<double> turned(query.begin() + static_cast<std::ptrdiff_t>(nope), query.end());
      rotate(turned, r, rope);
      const auto score = [&](std::size_t key) {
        const std::vector<double> row = columns({expanded[key]}, h * (nope + v_dim), nope)[0];
        return (dot(plain, row) + dot(turned, shared[key])) / std::sqrt(static_cast<double>(nope + rope_dim));
      };
      const auto value = [&](std::size_t key) { return columns({expanded[key]}, h * (nope + v_dim) + nope, v_dim)[0]; };
      const auto out = mix(score, [](std::size_t) { return true; }, r + 1, value, 0);
      mixed[r].insert(mixed[r].end(), out.begin(), out.end());
    }
  }
  return plain_linear(weights, "layer.o", mixed);
}

TEST(LatentAttention, AbsorbedFormEqualsTheExpandedOne) {
  const auto backend = plain_backend(1);
  const auto x = random_rows(kRows, kHidden, 3);
  for (const std::int32_t q_lora : {0, 7}) {
    const MlaSpec spec = latent_spec(q_lora);
    MemoryWeights weights;
    add_weights(weights, spec);
    const RopeConfig rope = rope_of(spec.rope_dim, true);
    WeightLoader loader(weights, *backend);
    auto layer = LatentAttention::load(loader, "layer.", kHidden, spec);
    ASSERT_TRUE(layer) << layer.error().message;
    const auto got = run(**layer, x, rope);
    expect_near(got, plain_latent_attention(weights, spec, rope, to_table(x, kHidden)), 2e-5);

    // The key and value halves apart, keys turned, as newer GGUFs have them: the same bits.
    const std::vector<float> fused = weights.values("layer.kv_b.weight");
    std::vector<float> keys, values;
    const std::int64_t latent = spec.kv_lora_rank, rows = spec.nope_dim + spec.v_dim;
    for (std::int64_t h = 0; h < spec.heads; ++h) {
      for (std::int64_t c = 0; c < latent; ++c)
        for (std::int64_t r = 0; r < spec.nope_dim; ++r)
          keys.push_back(fused[static_cast<std::size_t>((h * rows + r) * latent + c)]);
      for (std::int64_t i = (h * rows + spec.nope_dim) * latent; i < (h + 1) * rows * latent; ++i)
        values.push_back(fused[static_cast<std::size_t>(i)]);
    }
    weights.erase("layer.kv_b.weight");
    weights.set("layer.k_b.weight", Shape{spec.heads, latent, spec.nope_dim}, keys);
    weights.set("layer.v_b.weight", Shape{spec.heads, spec.v_dim, latent}, values);
    layer = LatentAttention::load(loader, "layer.", kHidden, spec);
    ASSERT_TRUE(layer) << layer.error().message;
    EXPECT_EQ(run(**layer, x, rope), got);
  }
}

}  // namespace
}  // namespace quire
