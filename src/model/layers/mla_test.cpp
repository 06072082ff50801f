// Latent attention in its absorbed form against the expanded one in double.
#include "model/layers/mla.h"

#include <gtest/gtest.h>

#include "model/layers/attention_test_util.h"

namespace quire {
namespace {

using namespace testing_support;  // NOLINT

MlaSpec latent_spec(std::int32_t q_lora) {
  MlaSpec spec;
  spec.heads = 3;
  spec.q_lora_rank = q_lora;
  spec.kv_lora_rank = 10;
  spec.nope_dim = 8;
  spec.rope_dim = 4;
  spec.v_dim = 6;
  spec.rope = 0;
  spec.q = "q", spec.q_a = "q_a", spec.q_b = "q_b", spec.kv_a = "kv_a", spec.kv_b = "kv_b",
  spec.output = "o";
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
  weights.add("layer.kv_b.weight",
              Shape{std::int64_t{spec.heads} * (spec.nope_dim + spec.v_dim), spec.kv_lora_rank});
  weights.add("layer.o.weight", Shape{kHidden, std::int64_t{spec.heads} * spec.v_dim});
}

// As the paper writes it first: keys and values of every head expanded from the latent.
Table plain_latent_attention(const MemoryWeights& weights, const MlaSpec& spec,
                             const RopeConfig& rope, const Table& x) {
  const auto nope = static_cast<std::size_t>(spec.nope_dim),
             rope_dim = static_cast<std::size_t>(spec.rope_dim),
             latent = static_cast<std::size_t>(spec.kv_lora_rank),
             v_dim = static_cast<std::size_t>(spec.v_dim);
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
      const std::vector<double> plain(query.begin(),
                                      query.begin() + static_cast<std::ptrdiff_t>(nope));
      std::vector<double> turned(query.begin() + static_cast<std::ptrdiff_t>(nope), query.end());
      rotate(turned, r, rope);
      const auto score = [&](std::size_t key) {
        const std::vector<double> row = columns({expanded[key]}, h * (nope + v_dim), nope)[0];
        return (dot(plain, row) + dot(turned, shared[key])) /
               std::sqrt(static_cast<double>(nope + rope_dim));
      };
      const auto value = [&](std::size_t key) {
        return columns({expanded[key]}, h * (nope + v_dim) + nope, v_dim)[0];
      };
      const auto out = mix(
          score, [](std::size_t) { return true; }, r + 1, value, 0);
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
