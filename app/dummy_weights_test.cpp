#include "app/dummy_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "weights/model_config.h"

namespace quire {
namespace {

ModelConfig config_of(const std::string& more) {
  const Result<ModelConfig> config = parse_hf_config(
      R"({"model_type": "llama", "vocab_size": 600, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2)" +
          more + "}",
      "");
  EXPECT_TRUE(config) << config.error().message;
  return *config;
}

TEST(DummyWeights, ShapesAndTypeAreTheConfigurations) {
  const auto weights = DummyWeights::create(config_of(R"(, "dtype": "bfloat16")"), 0);
  ASSERT_TRUE(weights) << weights.error().message;
  const auto key = (*weights)->require("model.layers.1.self_attn.k_proj.weight", {32, 64});
  ASSERT_TRUE(key) << key.error().message;
  EXPECT_EQ(key->dtype, DType::kBF16);
  EXPECT_TRUE((*weights)->find("model.layers.1.self_attn.k_proj.bias").empty());
  EXPECT_TRUE((*weights)->find("model.layers.2.self_attn.k_proj.weight").empty());
  EXPECT_FALSE((*weights)->find("lm_head.weight").empty());
  // Embedding and head; per layer q, o, k, v, three of the MLP, two norms; the last norm; two bytes
  // each.
  EXPECT_EQ((*weights)->total_bytes(),
            2u * (2 * 600 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 96 + 128) + 64));
}

TEST(DummyWeights, ValuesAreNearlyNormalAndSeeded) {
  const ModelConfig config = config_of(R"(, "dtype": "float32")");
  const auto first = DummyWeights::create(config, 1), again = DummyWeights::create(config, 1),
             other = DummyWeights::create(config, 2);
  const TensorView a = (*first)->find("model.embed_tokens.weight"),
                   b = (*again)->find("model.embed_tokens.weight"),
                   c = (*other)->find("model.embed_tokens.weight");
  const auto bytes = static_cast<std::size_t>(a.bytes());
  EXPECT_EQ(std::memcmp(a.data, b.data, bytes), 0);
  EXPECT_NE(std::memcmp(a.data, c.data, bytes), 0);
  EXPECT_NE(std::memcmp(a.data, (*first)->find("lm_head.weight").data, bytes), 0);
  double sum = 0, squares = 0;
  std::vector<float> row(64);
  for (std::int64_t r = 0; r < a.rows(); ++r) {
    dequantize_row(a, r, row.data());
    for (const float value : row) {
      sum += value;
      squares += value * value;
    }
  }
  const double count = 600 * 64;
  EXPECT_NEAR(sum / count, 0.0, 5e-4);
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 5e-4);
  dequantize_row((*first)->find("model.norm.weight"), 0, row.data());
  for (const float value : row) EXPECT_NEAR(value, 1.0f, 0.1f);
}

TEST(DummyWeights, TensorsOfRecurrentLayersAreMadeWhenAskedFor) {
  const Result<ModelConfig> config = parse_hf_config(
      R"({"model_type": "mamba", "vocab_size": 600, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16, "conv_kernel": 4,
          "intermediate_size": 128, "time_step_rank": 4, "expand": 2})",
      "");
  ASSERT_TRUE(config) << config.error().message;
  const auto weights = DummyWeights::create(*config, 7), again = DummyWeights::create(*config, 7);
  ASSERT_TRUE(weights && again);
  for (const Shape& shape : {Shape{256, 64}, Shape{128, 1, 4}, Shape{900, 800}}) {
    const auto view = (*weights)->require("backbone.layers.0.mixer.in_proj.weight", shape);
    const auto same = (*again)->require("backbone.layers.0.mixer.in_proj.weight", shape);
    ASSERT_TRUE(view && same) << shape.to_string();
    EXPECT_EQ(view->shape, shape);
    const auto bytes = static_cast<std::size_t>(row_bytes(view->dtype, shape.elements()));
    EXPECT_EQ(std::memcmp(view->data, same->data, bytes), 0);
  }
  const Result<ModelConfig> llama = parse_hf_config(
      R"({"model_type": "llama", "vocab_size": 600, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 128})",
      "");
  ASSERT_TRUE(llama) << llama.error().message;
  EXPECT_FALSE((*DummyWeights::create(*llama, 7))->require("model.no_such_tensor", Shape{64}));
}

}  // namespace
}  // namespace quire
