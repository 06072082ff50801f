// How a specification becomes a model: KV groups, multipliers, parallel blocks, and what an error
// says. Whole models are held to reference values in tests/.
#include "model/transformer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/layers/recurrent_test_util.h"

namespace quire {
namespace {

using namespace testing_support;  // NOLINT

constexpr std::int64_t kHidden = 24, kVocab = 40;
constexpr std::int32_t kWidth = 16;

LayerSpec layer_of(int index, std::int32_t window, std::int32_t kv_heads) {
  LayerSpec layer;
  layer.prefix = "l" + std::to_string(index) + ".";
  layer.input_norm = {NormKind::kRms, "n1", false, 0, 1e-5f};
  layer.mlp_norm = {NormKind::kRms, "n2", false, 0, 1e-5f};
  AttentionSpec attention;
  attention.q_heads = 2;
  attention.kv_heads = kv_heads;
  attention.head_dim = 8;
  attention.window = window;
  attention.q = "q", attention.k = "k", attention.v = "v", attention.output = "o";
  layer.mixer = attention;
  MlpSpec mlp;
  mlp.intermediate = kWidth;
  mlp.gate = "gate", mlp.up = "up", mlp.down = "down";
  layer.mlp = mlp;
  return layer;
}

ModelSpec model_of(std::vector<LayerSpec> layers) {
  ModelSpec spec;
  spec.vocab_size = kVocab;
  spec.hidden_size = kHidden;
  spec.embedding = "embed";
  spec.layers = std::move(layers);
  spec.final_norm = {NormKind::kRms, "final", false, 0, 1e-5f};
  spec.tied_head = true;
  return spec;
}

void add_weights(MemoryWeights& weights, const ModelSpec& spec) {
  weights.add("embed.weight", Shape{kVocab, kHidden}, 1.0f);
  weights.add("final.weight", Shape{kHidden}, 1.0f);
  weights.add("positions.weight", Shape{50, kHidden}, 1.0f);
  for (const LayerSpec& layer : spec.layers) {
    const auto& attention = std::get<AttentionSpec>(layer.mixer);
    for (const char* name : {"n1", "n2"})
      weights.add(layer.prefix + name + ".weight", Shape{kHidden}, 1.0f);
    weights.add(layer.prefix + "q.weight", Shape{16, kHidden});
    weights.add(layer.prefix + "o.weight", Shape{kHidden, 16});
    for (const char* name : {"k", "v"})
      weights.add(layer.prefix + name + ".weight",
                  Shape{std::int64_t{attention.kv_heads} * 8, kHidden});
    for (const char* name : {"gate", "up"})
      weights.add(layer.prefix + name + ".weight", Shape{kWidth, kHidden});
    weights.add(layer.prefix + "down.weight", Shape{kHidden, kWidth});
  }
}

// Logits of one token at position 0, where attention gives the token's own value to every head.
std::vector<float> one_token(Model& model, Backend& backend, std::int32_t token) {
  const KvGeometry geometry = model.kv_geometry(8, DType::kF32);
  const std::vector<std::int32_t> blocks(geometry.groups.size(), 1);
  const auto cache = backend.make_kv_cache(geometry, blocks);
  backend.reserve(1, 0);
  Workspace workspace(model.workspace_bytes(1, 1));
  const std::int32_t ids[] = {token}, position[] = {0}, rows[] = {0, 1}, start[] = {0},
                     table[] = {0}, prompt[] = {1};
  ModelInput input;
  input.token_ids = ids;
  input.positions = position;
  input.groups.assign(geometry.groups.size(), {rows, start, table, rows});
  input.row_begin = rows;
  input.start_pos = start;
  input.prompt_tokens = prompt;
  std::vector<float> hidden(kHidden), logits(kVocab);
  model.forward(input, *cache, workspace, hidden.data());
  model.logits(hidden.data(), 1, workspace, logits.data());
  return logits;
}

// The same by hand, for layers of two KV heads.
std::vector<double> plain_token(const MemoryWeights& weights, const ModelSpec& spec,
                                std::size_t token) {
  std::vector<double> h = to_table(weights.values("embed.weight"), kHidden)[token];
  for (double& v : h) v *= static_cast<double>(spec.embedding_multiplier);
  if (!spec.position_embedding.empty()) {
    const auto at = to_table(weights.values("positions.weight"),
                             kHidden)[static_cast<std::size_t>(spec.position_offset)];
    for (std::size_t i = 0; i < h.size(); ++i) h[i] += at[i];
  }
  for (const LayerSpec& layer : spec.layers) {
    const auto normed = [&](const std::vector<double>& x, const char* name) {
      std::vector<double> y = x;
      plain_rms(y, weights.values(layer.prefix + name + ".weight"), 1e-5);
      return y;
    };
    const auto mixed = [&](const std::vector<double>& x) {
      return plain_linear(weights, layer.prefix + "o",
                          plain_linear(weights, layer.prefix + "v", {x}))[0];
    };
    const auto mlp = [&](const std::vector<double>& x) {
      const Table gate = plain_linear(weights, layer.prefix + "gate", {x});
      Table active = plain_linear(weights, layer.prefix + "up", {x});
      for (std::size_t i = 0; i < active[0].size(); ++i) active[0][i] *= plain_silu(gate[0][i]);
      return plain_linear(weights, layer.prefix + "down", active)[0];
    };
    const auto add = [&](const std::vector<double>& x) {
      for (std::size_t i = 0; i < h.size(); ++i)
        h[i] += static_cast<double>(layer.residual_multiplier) * x[i];
    };
    const std::vector<double> before = h;
    add(mixed(normed(h, "n1")));
    const std::vector<double>& mlp_input = layer.parallel ? before : h;
    add(mlp(normed(mlp_input, layer.mlp_norm.kind == NormKind::kNone ? "n1" : "n2")));
  }
  plain_rms(h, weights.values("final.weight"), 1e-5);
  Table logits = plain_linear(weights, "embed", {h});
  for (double& v : logits[0]) {
    v *= static_cast<double>(spec.logit_multiplier);
    if (spec.logit_soft_cap > 0)
      v = spec.logit_soft_cap * std::tanh(v / static_cast<double>(spec.logit_soft_cap));
  }
  return logits[0];
}

TEST(Transformer, GroupsLayersOfOneReachAndShape) {
  const ModelSpec spec =
      model_of({layer_of(0, 0, 2), layer_of(1, 8, 2), layer_of(2, 0, 2), layer_of(3, 0, 1)});
  MemoryWeights weights;
  add_weights(weights, spec);
  const auto backend = plain_backend(1);
  const auto model = Transformer::load(spec, weights, *backend);
  ASSERT_TRUE(model) << model.error().message;
  const KvGeometry geometry = (*model)->kv_geometry(16, DType::kF32);
  ASSERT_EQ(geometry.groups.size(), 3u);
  EXPECT_EQ(geometry.groups[0].num_layers, 2);
  EXPECT_EQ(geometry.groups[1].window, 8);
  EXPECT_EQ(geometry.groups[1].kind, KvGroupKind::kSlidingWindow);
  EXPECT_EQ(geometry.groups[2].kv_heads, 1);
  EXPECT_FALSE((*model)->has_recurrent_state);
  EXPECT_GT((*model)->weight_bytes, 0);
}

TEST(Transformer, BlocksAndMultipliersFollowThePlainSum) {
  for (const bool parallel : {false, true}) {
    for (const bool shared_norm : {false, true}) {
      for (const float multiplier : {1.0f, 0.3f}) {
        ModelSpec spec = model_of({layer_of(0, 0, 2), layer_of(1, 0, 2)});
        for (LayerSpec& layer : spec.layers) {
          layer.parallel = parallel;
          layer.residual_multiplier = multiplier;
          if (parallel && shared_norm) layer.mlp_norm = {};
        }
        if (shared_norm) {
          spec.embedding_multiplier = 3;
          spec.position_embedding = "positions";
          spec.position_offset = 2;
          spec.logit_multiplier = 0.5f;
          spec.logit_soft_cap = 2;
        }
        MemoryWeights weights;
        add_weights(weights, spec);
        const auto backend = plain_backend(1);
        const auto model = Transformer::load(spec, weights, *backend);
        ASSERT_TRUE(model) << model.error().message;
        const auto logits = one_token(**model, *backend, 7);
        const auto expected = plain_token(weights, spec, 7);
        for (std::size_t i = 0; i < logits.size(); ++i)
          EXPECT_NEAR(static_cast<double>(logits[i]), expected[i],
                      1e-4 * (1 + std::fabs(expected[i])));
      }
    }
  }
}

TEST(Transformer, NamesAMissingTensor) {
  const ModelSpec spec = model_of({layer_of(0, 0, 2)});
  MemoryWeights weights;
  add_weights(weights, spec);
  weights.erase("l0.down.weight");
  const auto backend = plain_backend(1);
  const auto model = Transformer::load(spec, weights, *backend);
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("l0.down.weight"), std::string::npos)
      << model.error().message;
}

}  // namespace
}  // namespace quire
