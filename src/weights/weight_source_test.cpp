// Names as they are looked up against names as they are stored, and lists of what does not fit.
#include "weights/weight_source.h"

#include "weights/safetensors_weights.h"
#include "weights/test_files.h"

namespace quire {
namespace {

using testing::Bytes;
using testing::expect_error;
using testing::GgufBuilder;
using testing::safetensors_bytes;
using testing::TempFolder;

// F32 tensors of [2, 4] under these names.
Bytes file_of(const std::vector<std::string>& names) {
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    header += (i == 0 ? "\"" : ", \"") + names[i] + R"(": {"dtype": "F32", "shape": [2, 4], )" +
              fmt::format(R"("data_offsets": [{}, {}]}})", 32 * i, 32 * i + 32);
  }
  return safetensors_bytes(header + "}", 32 * names.size());
}

SafetensorsWeights weights_of(const Bytes& bytes) {
  auto file = SafetensorsFile::parse(bytes, "f");
  EXPECT_TRUE(file) << file.error().message;
  return SafetensorsWeights(*std::move(file));
}

TEST(WeightSource, CheckpointsOfTheBareModel) {
  const Bytes bytes = file_of({"h.0.attn.c_attn.weight", "wte.weight"});
  const SafetensorsWeights weights = weights_of(bytes);
  EXPECT_TRUE(weights.require("transformer.h.0.attn.c_attn.weight", {2, 4}));
  EXPECT_THAT(weights.unused_names(), ::testing::ElementsAre("wte.weight"));
  EXPECT_TRUE(weights.require("transformer.wte.weight", {2, 4}));
  EXPECT_TRUE(weights.check_all_used());
  EXPECT_TRUE(weights.find("model.wte.bias").empty());
}

TEST(WeightSource, TextHalfOfAMultimodalModel) {
  const Bytes bytes = file_of({"language_model.model.norm.weight", "language_model.lm_head.weight",
                               "model.language_model.layers.0.x.weight", "vision_tower.a.weight",
                               "model.text_model.layers.1.x.weight"});
  const SafetensorsWeights weights = weights_of(bytes);
  for (const char* name : {"model.norm.weight", "lm_head.weight", "model.layers.0.x.weight",
                           "model.layers.1.x.weight"}) {
    EXPECT_TRUE(weights.require(name, {2, 4})) << name;
  }
  EXPECT_THAT(weights.unused_names(), ::testing::ElementsAre("vision_tower.a.weight"));
  EXPECT_TRUE(weights.check_all_used()) << "the other half is not counted";
}

TEST(WeightSource, ListsWhatIsLeftOver) {
  std::vector<std::string> names = {"h.0.attn.bias", "layers.0.rotary_emb.inv_freq"};
  for (int i = 0; i < 12; ++i) names.push_back("extra." + std::to_string(i));
  const Bytes bytes = file_of(names);
  const SafetensorsWeights weights = weights_of(bytes);
  const Status status = weights.check_all_used();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "12 tensors of the file are not part of the model: extra.0, extra.1, extra.10, "
            "extra.11, extra.2, extra.3, extra.4, extra.5, extra.6, extra.7 and 2 more");
}

TEST(WeightSource, ListsWhatIsMissingOrOfAnotherShape) {
  const Bytes bytes = file_of({"a", "b"});
  const SafetensorsWeights weights = weights_of(bytes);
  EXPECT_TRUE(weights.check_tensors(std::vector<ExpectedTensor>{{"a", {2, 4}}, {"b", {2, 1, 4}}}));
  const std::vector<ExpectedTensor> wrong = {
      {"a", {4, 2}}, {"c", {1}}, {"d", {1}, true}, {"e", {3}}};
  const Status status = weights.check_tensors(wrong);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "2 tensors are missing: c [1], e [3]; 1 tensors have another shape than the "
            "configuration says: a [2, 4] instead of [4, 2]");
}

// A llama with two experts of 16 in each of two layers.
GgufBuilder tiny_moe_gguf() {
  GgufBuilder gguf;
  gguf.str("general.architecture", "llama").u32("llama.block_count", 1);
  gguf.u32("llama.embedding_length", 8).u32("llama.feed_forward_length", 16);
  gguf.u32("llama.attention.head_count", 2).u32("llama.context_length", 64);
  gguf.u32("llama.expert_count", 2).u32("llama.expert_used_count", 1);
  gguf.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  gguf.f32_tensor("token_embd.weight", {8, 6}).f32_tensor("blk.0.ffn_gate_inp.weight", {8, 2});
  gguf.f32_tensor("blk.0.ffn_gate_exps.weight", {8, 16, 2});
  gguf.f32_tensor("blk.0.ffn_down_exps.weight", {16, 8, 2});
  return gguf;
}

TEST(WeightSource, StackedExpertsWholeAndOneByOne) {
  const TempFolder folder;
  const auto files = open_model(folder.write("m.gguf", tiny_moe_gguf().build()));
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->config.architecture, "mixtral");
  EXPECT_TRUE(files->config.fields.boolean("gguf.stacked_experts", false));
  EXPECT_EQ(files->config.fields.integer("num_local_experts", 0), 2);
  const WeightSource& weights = *files->weights;
  const std::string prefix = "model.layers.0.block_sparse_moe.experts.";
  const auto stack = weights.require(prefix + "w2.weight", {2, 8, 16});
  ASSERT_TRUE(stack) << stack.error().message;
  const auto one = weights.require(prefix + "1.w2.weight", {8, 16});
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->data, stack->data + 8 * 16 * 4);
  EXPECT_EQ(weights.unused_names().size(), 3u);
  ASSERT_TRUE(weights.require(prefix + "0.w1.weight", {16, 8}));
  EXPECT_EQ(weights.unused_names().size(), 2u) << "an expert's use is its stack's";
  EXPECT_TRUE(weights.find(prefix + "2.w2.weight").empty());
  EXPECT_TRUE(weights.find(prefix + "x.w2.weight").empty());
  expect_error(weights.require(prefix + "1.w2.weight", {16, 8}), "has shape [8, 16]");
}

TEST(WeightSource, UnknownGgufTensorsAreLeftOver) {
  const TempFolder folder;
  GgufBuilder gguf = tiny_moe_gguf();
  gguf.f32_tensor("blk.0.new_thing.weight", {8}).f32_tensor("rope_freqs.weight", {2});
  const auto files = open_model(folder.write("m.gguf", gguf.build()));
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_THAT(files->weights->names(), ::testing::Contains("blk.0.new_thing.weight"));
  EXPECT_THAT(files->weights->names(), ::testing::Not(::testing::Contains("rope_freqs.weight")));
}

}  // namespace
}  // namespace quire
