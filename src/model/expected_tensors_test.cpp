// What a specification asks of a file: everything that is missing or misshapen is named at once.
#include "model/expected_tensors.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/arch_common.h"
#include "model/architectures.h"
#include "model/layers/memory_weights.h"

namespace quire {
namespace {

using testing_support::MemoryWeights;

ModelConfig two_layers() {
  ModelConfig config;
  config.vocab_size = 32;
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  return config;
}

TEST(ExpectedTensors, AllThatIsWrongIsNamedAtOnce) {
  const Result<ModelSpec> spec = llama_spec(two_layers());
  ASSERT_TRUE(spec);
  MemoryWeights weights;
  const std::vector<ExpectedTensor> expected = expected_tensors(*spec, weights);
  for (const ExpectedTensor& each : expected) {
    if (!each.optional) weights.set_shape(each.name, each.shape);
  }
  EXPECT_EQ(weights.size(), 3u + 2 * 9);
  EXPECT_EQ(weights.find("model.layers.1.self_attn.k_proj.weight").shape, (Shape{32, 64}));
  EXPECT_TRUE(weights.check_tensors(expected));
  weights.erase("lm_head.weight");
  weights.erase("model.layers.0.mlp.up_proj.weight");
  weights.set_shape("model.norm.weight", Shape{63});
  const Status status = weights.check_tensors(expected);
  ASSERT_FALSE(status);
  for (const char* part :
       {"lm_head.weight", "model.layers.0.mlp.up_proj.weight", "model.norm.weight", "63"}) {
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  }
}

TEST(ExpectedTensors, FormsThatDependOnTheFile) {
  ModelConfig config = two_layers();
  for (const char* field : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    config.fields.set(field, std::int64_t{8});
  }
  const Result<ModelSpec> spec = deepseek_v3_spec(config);
  ASSERT_TRUE(spec);
  const auto shape_of = [&](const MemoryWeights& weights, const std::string& name) {
    for (const ExpectedTensor& each : expected_tensors(*spec, weights)) {
      if (each.name == "model.layers.0.self_attn." + name + ".weight") return each.shape;
    }
    return Shape{};
  };
  MemoryWeights weights;
  EXPECT_EQ(shape_of(weights, "kv_b_proj"), (Shape{64, 8}));
  EXPECT_EQ(shape_of(weights, "k_b_proj"), Shape{});
  weights.set_shape("model.layers.0.self_attn.k_b_proj.weight", Shape{4, 8, 8});
  EXPECT_EQ(shape_of(weights, "kv_b_proj"), Shape{});
  EXPECT_EQ(shape_of(weights, "v_b_proj"), (Shape{4, 8, 8}));
}

// Numbers that the loader refuses make no endless list.
TEST(ExpectedTensors, AbsurdNumbersOfExperts) {
  ModelConfig config = two_layers();
  config.fields.set("num_local_experts", std::int64_t{2000000000});
  const Result<ModelSpec> spec = mixtral_spec(config);
  ASSERT_TRUE(spec);
  EXPECT_LT(expected_tensors(*spec, MemoryWeights()).size(), 20000u);
}

}  // namespace
}  // namespace quire
