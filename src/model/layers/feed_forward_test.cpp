// MLPs and mixtures of experts against plain loops in double; the ways in which files store experts
// give the same bits, and so do tokens in any company.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/layers/mlp.h"
#include "model/layers/moe.h"
#include "model/layers/recurrent_test_util.h"

namespace quire {
namespace {

using namespace testing_support;  // NOLINT

constexpr std::int64_t kIn = 24, kWidth = 20, kExperts = 5, kTokens = 9;

std::vector<float> run_layer(const FeedForward& layer, const std::vector<float>& x,
                             int threads = 1) {
  const auto backend = plain_backend(threads);
  const auto rows = static_cast<std::int64_t>(x.size()) / kIn;
  backend->reserve(rows, 1024);
  Workspace workspace(1 << 20);
  std::vector<float> y(x.size(), NAN);
  layer.forward(*backend, workspace, x.data(), rows, Epilogue::kStore, y.data());
  return y;
}

void expect_close(const std::vector<float>& got, const Table& want) {
  std::size_t i = 0;
  for (const auto& row : want) {
    for (const double v : row) EXPECT_NEAR(static_cast<double>(got[i++]), v, 2e-5);
  }
  EXPECT_EQ(i, got.size());
}

Table plain_mlp(const MemoryWeights& weights, const std::string& prefix, const Table& x) {
  const Table gate = plain_linear(weights, prefix + "gate", x),
              up = plain_linear(weights, prefix + "up", x);
  Table active = up;
  for (std::size_t r = 0; r < x.size(); ++r)
    for (std::size_t i = 0; i < up[r].size(); ++i) active[r][i] *= plain_silu(gate[r][i]);
  return plain_linear(weights, prefix + "down", active);
}

MlpSpec mlp_spec(const std::string& prefix = "") {
  MlpSpec spec;
  spec.intermediate = kWidth;
  spec.gate = prefix + "gate", spec.up = prefix + "up", spec.down = prefix + "down";
  return spec;
}

void add_mlp(MemoryWeights& weights, const std::string& prefix) {
  weights.add(prefix + "gate.weight", Shape{kWidth, kIn});
  weights.add(prefix + "up.weight", Shape{kWidth, kIn});
  weights.add(prefix + "down.weight", Shape{kIn, kWidth});
}

TEST(Mlp, GatedFusedAndPlain) {
  const auto backend = plain_backend(1);
  MemoryWeights weights;
  add_mlp(weights, "layer.");
  weights.add("layer.down.bias", Shape{kIn});
  WeightLoader loader(weights, *backend);
  const auto x = random_rows(kTokens, kIn, 5);
  MlpSpec spec = mlp_spec();
  const auto gated = Mlp::load(loader, "layer.", kIn, spec);
  ASSERT_TRUE(gated) << gated.error().message;
  const auto expected = run_layer(**gated, x);
  expect_close(expected, plain_mlp(weights, "layer.", to_table(x, kIn)));

  std::vector<float> both = weights.values("layer.gate.weight");
  const auto& up = weights.values("layer.up.weight");
  both.insert(both.end(), up.begin(), up.end());
  weights.set("layer.both.weight", Shape{2 * kWidth, kIn}, both);
  spec.fused_gate_up = "both";
  EXPECT_EQ(run_layer(**Mlp::load(loader, "layer.", kIn, spec), x), expected);

  spec = mlp_spec();
  spec.gated = false;
  spec.activation = ActivationKind::kRelu2;
  Table active = plain_linear(weights, "layer.up", to_table(x, kIn));
  for (auto& row : active)
    for (double& v : row) v = v > 0 ? v * v : 0;
  expect_close(run_layer(**Mlp::load(loader, "layer.", kIn, spec), x),
               plain_linear(weights, "layer.down", active));

  spec.require_bias = true;
  const auto missing = Mlp::load(loader, "layer.", kIn, spec);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("layer.up.bias"), std::string::npos)
      << missing.error().message;
}

MoeSpec moe_spec() {
  MoeSpec spec;
  spec.experts = kExperts;
  spec.top_k = 2;
  spec.intermediate = kWidth;
  spec.score = RouterScore::kSoftmaxOfTopK;
  spec.router = "router";
  spec.expert_prefix = "experts";
  spec.expert = mlp_spec();
  return spec;
}

void add_moe(MemoryWeights& weights) {
  weights.add("layer.router.weight", Shape{kExperts, kIn}, 1.0f);
  for (int e = 0; e < kExperts; ++e) add_mlp(weights, "layer.experts." + std::to_string(e) + ".");
  add_mlp(weights, "layer.shared.");
  weights.add("layer.shared_gate.weight", Shape{1, kIn});
}

Table plain_moe(const MemoryWeights& weights, const Table& x, bool shared) {
  const Table logits = plain_linear(weights, "layer.router", x);
  Table y = x;
  for (std::size_t r = 0; r < x.size(); ++r) {
    const auto& row = logits[r];
    std::vector<std::size_t> order(row.size());
    for (std::size_t e = 0; e < order.size(); ++e) order[e] = e;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
    const double first = 1 / (1 + std::exp(row[order[1]] - row[order[0]]));
    const auto add = [&](const std::string& prefix, double factor) {
      const std::vector<double> out = plain_mlp(weights, prefix, {x[r]})[0];
      for (std::size_t i = 0; i < out.size(); ++i) y[r][i] += factor * out[i];
    };
    std::fill(y[r].begin(), y[r].end(), 0.0);
    add("layer.experts." + std::to_string(order[0]) + ".", first);
    add("layer.experts." + std::to_string(order[1]) + ".", 1 - first);
    if (shared)
      add("layer.shared.",
          1 / (1 + std::exp(-plain_linear(weights, "layer.shared_gate", {x[r]})[0][0])));
  }
  return y;
}

TEST(Moe, FollowsThePlainLoopAndIgnoresTheCompany) {
  const auto backend = plain_backend(1);
  MemoryWeights weights;
  add_moe(weights);
  WeightLoader loader(weights, *backend);
  const auto x = random_rows(kTokens, kIn, 5);
  for (const bool shared : {false, true}) {
    MoeSpec spec = moe_spec();
    spec.has_shared = shared;
    spec.shared = mlp_spec("shared.");
    if (shared) spec.shared_gate = "shared_gate";
    const auto moe = Moe::load(loader, "layer.", kIn, spec);
    ASSERT_TRUE(moe) << moe.error().message;
    const auto together = run_layer(**moe, x);
    expect_close(together, plain_moe(weights, to_table(x, kIn), shared));
    EXPECT_EQ(run_layer(**moe, x, 3), together);
    std::vector<float> alone;
    for (std::int64_t r = 0; r < kTokens; ++r) {
      const auto row = run_layer(**moe, {x.begin() + r * kIn, x.begin() + (r + 1) * kIn});
      alone.insert(alone.end(), row.begin(), row.end());
    }
    EXPECT_EQ(alone, together);
  }
}

// All experts' matrices `name`, one after the other; transposed: each [inputs, outputs].
std::vector<float> stack(const MemoryWeights& weights, const std::string& name, std::int64_t inputs,
                         bool transposed) {
  std::vector<float> all;
  for (int e = 0; e < kExperts; ++e) {
    const auto& m = weights.values("layer.experts." + std::to_string(e) + "." + name + ".weight");
    const auto outputs = static_cast<std::int64_t>(m.size()) / inputs;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(m.size()); ++i)
      all.push_back(
          m[static_cast<std::size_t>(transposed ? i % outputs * inputs + i / outputs : i)]);
  }
  return all;
}

TEST(Moe, EveryStorageOfTheSameExpertsGivesTheSameBits) {
  const auto backend = plain_backend(1);
  MemoryWeights weights;
  add_moe(weights);
  WeightLoader loader(weights, *backend);
  const auto x = random_rows(kTokens, kIn, 5);
  MoeSpec spec = moe_spec();
  const auto expected = run_layer(**Moe::load(loader, "layer.", kIn, spec), x);

  spec.storage = ExpertStorage::kStacked;
  weights.set("layer.experts.gate.weight", Shape{kExperts, kWidth, kIn},
              stack(weights, "gate", kIn, false));
  weights.set("layer.experts.up.weight", Shape{kExperts, kWidth, kIn},
              stack(weights, "up", kIn, false));
  weights.set("layer.experts.down.weight", Shape{kExperts, kIn, kWidth},
              stack(weights, "down", kWidth, false));
  EXPECT_EQ(run_layer(**Moe::load(loader, "layer.", kIn, spec), x), expected);

  // DBRX: the experts below each other, down turned.
  spec.down_transposed = true;
  spec.expert_suffix.clear();
  for (const char* name : {"gate", "up"})
    weights.set(std::string("layer.experts.") + name, Shape{kExperts * kWidth, kIn},
                stack(weights, name, kIn, false));
  weights.set("layer.experts.down", Shape{kExperts * kWidth, kIn},
              stack(weights, "down", kWidth, true));
  EXPECT_EQ(run_layer(**Moe::load(loader, "layer.", kIn, spec), x), expected);

  // gpt-oss: all turned, gate and up interleaved, biases (here zero).
  spec.down_transposed = false;
  spec.storage = ExpertStorage::kStackedTransposed;
  spec.expert.fused_gate_up = "gate_up";
  spec.interleaved_gate_up = true;
  spec.expert_bias = true;
  std::vector<float> interleaved;
  const auto gate = stack(weights, "gate", kIn, true), up = stack(weights, "up", kIn, true);
  for (std::size_t i = 0; i < gate.size(); ++i)
    interleaved.insert(interleaved.end(), {gate[i], up[i]});
  weights.set("layer.experts.gate_up", Shape{kExperts, kIn, 2 * kWidth}, interleaved);
  weights.set("layer.experts.down", Shape{kExperts, kWidth, kIn},
              stack(weights, "down", kWidth, true));
  weights.set("layer.experts.gate_up_bias", Shape{kExperts, 2 * kWidth},
              std::vector<float>(kExperts * 2 * kWidth));
  weights.set("layer.experts.down_bias", Shape{kExperts, kIn}, std::vector<float>(kExperts * kIn));
  EXPECT_EQ(run_layer(**Moe::load(loader, "layer.", kIn, spec), x), expected);
}

TEST(Moe, RefusesImpossibleNumbers) {
  const auto backend = plain_backend(1);
  const MemoryWeights weights;
  WeightLoader loader(weights, *backend);
  MoeSpec spec = moe_spec();
  spec.top_k = kExperts + 1;
  EXPECT_FALSE(Moe::load(loader, "layer.", kIn, spec));
  spec.top_k = 2;
  spec.groups = 2;
  EXPECT_FALSE(Moe::load(loader, "layer.", kIn, spec));
}

}  // namespace
}  // namespace quire
