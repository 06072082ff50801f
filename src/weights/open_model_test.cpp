#include <sys/stat.h>

#include "weights/gguf_file.h"
#include "weights/inspect.h"
#include "weights/test_files.h"
#include "weights/weight_source.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::safetensors_bytes;
using testing::TempFolder;
using testing::tiny_config_json;
using testing::tiny_llama_gguf;

constexpr const char* kOneNorm =
    R"({"model.norm.weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}})";

// A Hugging Face folder with one tensor.
void write_hf(const TempFolder& folder) {
  folder.write("config.json", tiny_config_json(R"(, "eos_token_id": 1)"));
  folder.write("generation_config.json", R"({"eos_token_id": [2], "temperature": 0.5})");
  folder.write("tokenizer.json", "{}");
  folder.write("model.safetensors", safetensors_bytes(kOneNorm, 32));
}

TEST(OpenModel, GgufFile) {
  const TempFolder folder;
  const std::string path = folder.write(
      "m.gguf", tiny_llama_gguf().str("tokenizer.chat_template", "{{ x }}\nsecond").build());
  for (const std::string& given : {path, folder.path()}) {  // the file, or the folder that holds it
    const auto files = open_model(given);
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_TRUE(files->is_gguf);
    EXPECT_EQ(files->chat_template, "{{ x }}\nsecond");
    EXPECT_EQ(files->config.num_layers, 2);
    EXPECT_TRUE(files->weights->permuted_qk());
    EXPECT_EQ(files->gguf->get_array("tokenizer.ggml.tokens")->strings.size(), 6u);
    EXPECT_TRUE(files->weights->require("model.layers.1.self_attn.k_proj.weight", {4, 8}));
    EXPECT_EQ(files->weights->names().size(), 20u);
  }
}

// With the configuration of what it was made from, and the vision half of it.
TEST(OpenModel, GgufBesideOtherFiles) {
  const TempFolder folder;
  folder.write("m.gguf", tiny_llama_gguf().build());
  folder.write("mmproj-F16.gguf", "GGUF");
  folder.write("config.json", tiny_config_json());
  const auto files = open_model(folder.path());
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_TRUE(files->is_gguf);
  write_hf(folder);
  EXPECT_FALSE(open_model(folder.path())->is_gguf) << "safetensors come first";
}

TEST(OpenModel, HuggingFaceFolder) {
  const TempFolder folder;
  write_hf(folder);
  const auto files = open_model(folder.path());
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_FALSE(files->is_gguf);
  EXPECT_EQ(files->gguf, nullptr);
  EXPECT_EQ(files->tokenizer_json, "{}");
  EXPECT_THAT(files->config.eos_ids, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(files->config.generation.temperature, 0.5);
  EXPECT_EQ(files->chat_template, "");
  EXPECT_FALSE(files->weights->permuted_qk());
  EXPECT_EQ(files->file_bytes, safetensors_bytes(kOneNorm, 32).size());
}

TEST(OpenModel, StoredTypeIsConfigsOrTheWeights) {
  const TempFolder folder;
  write_hf(folder);
  folder.write(
      "model.safetensors",
      safetensors_bytes(R"({"w": {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}})", 8));
  EXPECT_EQ(open_model(folder.path())->config.stored_dtype, DType::kF16);
  folder.write("config.json", tiny_config_json(R"(, "torch_dtype": "bfloat16")"));
  EXPECT_EQ(open_model(folder.path())->config.stored_dtype, DType::kBF16);
}

TEST(OpenModel, OverridesOfTheConfiguration) {
  const TempFolder folder;
  write_hf(folder);
  folder.write("config.json",
               tiny_config_json(R"(, "rope_scaling": {"type": "linear", "factor": 2})"));
  const auto files = open_model(folder.path(), {.hf_overrides = R"({"max_position_embeddings": 99,
      "rope_scaling": {"factor": 8}})"});
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->config.max_position, 99);
  EXPECT_EQ(files->config.rope.factor, 8.0);
  EXPECT_EQ(files->config.rope.kind, RopeConfig::Kind::kLinear) << "objects merge";
  expect_error(open_model(folder.path(), {.hf_overrides = "{"}), "--hf-overrides: not valid JSON");
  folder.write("config.json", "{");
  expect_error(open_model(folder.path()), folder.path() + "/config.json: not valid JSON");
  const std::string gguf = folder.write("m.gguf", tiny_llama_gguf().build());
  expect_error(open_model(gguf, {.hf_overrides = "{}"}), "a GGUF has none");
}

TEST(OpenModel, OverridesInTheOlderSpellingReachNewerFiles) {
  const TempFolder folder;
  write_hf(folder);
  const auto overridden = [&](const std::string& over) {
    const auto files = open_model(folder.path(), {.hf_overrides = over});
    EXPECT_TRUE(files) << files.error().message;
    return files ? files->config : ModelConfig{};
  };
  folder.write("config.json",
               tiny_config_json(R"(, "dtype": "float32", "rope_parameters": {"rope_type": "linear",
                   "factor": 2, "rope_theta": 500})"));
  EXPECT_EQ(overridden(R"({"torch_dtype": "float16"})").stored_dtype, DType::kF16);
  EXPECT_EQ(overridden(R"({"rope_theta": 700})").rope.theta, 700.0);
  EXPECT_EQ(overridden(R"({"partial_rotary_factor": 0.5})").rope.rotary_dim, 2);
  EXPECT_EQ(overridden(R"({"rope_scaling": null})").rope.kind, RopeConfig::Kind::kDefault);
  for (const char* key : {"type", "rope_type"}) {
    const RopeConfig rope =
        overridden(R"({"rope_scaling": {")" + std::string(key) + R"(": "yarn", "factor": 8}})")
            .rope;
    EXPECT_EQ(rope.kind, RopeConfig::Kind::kYarn);
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.theta, 500.0) << "what is not overridden stays";
  }
  EXPECT_EQ(overridden(R"({"rope_scaling": {"type": "yarn"}, "rope_parameters": {"factor": 3}})")
                .rope.kind,
            RopeConfig::Kind::kLinear)
      << "the newer spelling decides where both are given";
  folder.write("config.json", tiny_config_json(R"(, "rope_parameters": {"full_attention":
      {"rope_type": "default", "rope_theta": 500}, "sliding_attention": {"rope_theta": 100}})"));
  const ModelConfig per_type = overridden(R"({"rope_scaling": {"type": "linear", "factor": 4}})");
  EXPECT_EQ(per_type.rope.factor, 4.0);
  EXPECT_EQ(per_type.sliding_rope->theta, 100.0);
}

TEST(OpenModel, SamplingDefaultsAsTheOptionsSay) {
  const TempFolder folder;
  write_hf(folder);
  const std::string other = folder.write("other.json", R"({"top_k": 7})");
  const auto generation = [&](const OpenOptions& options) {
    const auto files = open_model(folder.path(), options);
    EXPECT_TRUE(files) << files.error().message;
    return files ? files->config.generation : ModelConfig::Generation{};
  };
  EXPECT_EQ(generation({}).temperature, 0.5);
  EXPECT_FALSE(generation({.generation_config = "vllm"}).temperature);
  EXPECT_EQ(generation({.generation_config = other}).top_k, 7);
  EXPECT_FALSE(generation({.generation_config = other}).temperature);
  const auto over = generation({.override_generation_config = R"({"top_p": 0.9})"});
  EXPECT_EQ(over.temperature, 0.5);
  EXPECT_EQ(over.top_p, 0.9);
  // The model's own length is a default; the user's a limit.
  folder.write("generation_config.json", R"({"max_new_tokens": 50})");
  EXPECT_EQ(generation({}).max_new_tokens, 50);
  EXPECT_FALSE(generation({}).max_new_tokens_limit);
  const auto limited = generation({.override_generation_config = R"({"max_new_tokens": 9})"});
  EXPECT_EQ(limited.max_new_tokens_limit, 9);
  EXPECT_EQ(generation({.override_generation_config = "{}"}).max_new_tokens, 50);
  expect_error(
      open_model(folder.path(), {.override_generation_config = R"({"max_new_tokens": 0})"}),
      "max_new_tokens");
  expect_error(open_model(folder.path(), {.generation_config = folder.path() + "/none"}), "none");
  expect_error(open_model(folder.path(), {.override_generation_config = R"({"top_p": "x"})"}),
               "--override-generation-config: \"top_p\"");
}

TEST(OpenModel, MissingHeadMeansTheEmbedding) {
  const TempFolder folder;
  write_hf(folder);
  EXPECT_TRUE(open_model(folder.path())->config.tied_embeddings);
  folder.write("model.safetensors", safetensors_bytes(R"({"lm_head.weight": {"dtype": "F32",
      "shape": [2, 2], "data_offsets": [0, 16]}})",
                                                      16));
  EXPECT_FALSE(open_model(folder.path())->config.tied_embeddings);
}

TEST(OpenModel, KeepsTheNamesOfSymbolicLinks) {
  const TempFolder folder;
  const std::string blob = folder.write("0a1b2c", tiny_llama_gguf().build());
  std::filesystem::create_symlink(blob, folder.path() + "/named.gguf");
  const auto files = open_model(folder.path() + "/./named.gguf");
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->path, folder.path() + "/named.gguf");
}

TEST(OpenModel, ChatTemplateOfAFolder) {
  const TempFolder folder;
  write_hf(folder);
  const auto chat_template = [&] {
    const auto files = open_model(folder.path());
    return files ? files->chat_template : files.error().message;
  };
  folder.write("tokenizer_config.json", R"({"chat_template": "plain"})");
  EXPECT_EQ(chat_template(), "plain");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"},
      {"name": "default", "template": "d"}]})");
  EXPECT_EQ(chat_template(), "d");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "x", "template": "t"}]})");
  EXPECT_EQ(chat_template(), "");
  folder.write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT(chat_template(), ::testing::HasSubstr("a string is expected"));
  folder.write("chat_template.jinja", "from the file");
  EXPECT_EQ(chat_template(), "from the file");
}

TEST(OpenModel, SaysWhatIsWrong) {
  const TempFolder folder;
  expect_error(open_model(""), "no such file or folder");
  expect_error(open_model(folder.path() + "/none"), "no such file or folder");
  expect_error(open_model(std::string(5000, 'x')), "");
  expect_error(open_model(folder.path()), "neither config.json nor a .gguf");
  ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
  expect_error(open_model(folder.path() + "/pipe"), "not a regular file");
  expect_error(open_model(folder.write("w.safetensors", "x")), "give its folder");
  expect_error(open_model(folder.write("a.gguf", "GGUF")), "truncated");
  folder.write("b.gguf", "GGUF");
  expect_error(open_model(folder.path()), "holds 2 .gguf files; name one of them");
  std::filesystem::remove(folder.path() + "/w.safetensors");
  folder.write("config.json", "{}");
  expect_error(open_model(folder.path()), "holds 2 .gguf files; name one of them");
  std::filesystem::remove(folder.path() + "/a.gguf");
  std::filesystem::remove(folder.path() + "/b.gguf");
  expect_error(open_model(folder.path()), "config.json: neither");
  folder.write("config.json", tiny_config_json());
  expect_error(open_model(folder.path()), "has neither model.safetensors");
  folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "../../x.safetensors"}})");
  expect_error(open_model(folder.path()), "same folder");
}

TEST(WeightSource, ChecksShapesAndKnowsWhatWasNotUsed) {
  const TempFolder folder;
  const auto files = open_model(folder.write("m.gguf", tiny_llama_gguf().build()));
  ASSERT_TRUE(files) << files.error().message;
  const WeightSource& weights = *files->weights;
  expect_error(weights.require("model.norm.weight", {9}),
               "has shape [8], the model's configuration");
  expect_error(weights.optional("model.norm.weight", {2, 4}), "needs [2, 4]");
  expect_error(weights.require("lm_head.weight", {6, 8}), "no tensor \"lm_head.weight\" [6, 8]");
  EXPECT_TRUE(weights.optional("lm_head.weight", {6, 8})->empty());
  EXPECT_EQ(weights.unused_names().size(), 20u);
  const auto norm = weights.require("model.norm.weight", {8});
  ASSERT_TRUE(norm);
  weights.release_pages(*norm);
  EXPECT_EQ(weights.unused_names().size(), 19u);
  EXPECT_THAT(weights.unused_names(), ::testing::Not(::testing::Contains("model.norm.weight")));
  const auto column = weights.require("model.norm.weight", {8, 1});
  ASSERT_TRUE(column) << "dimensions of one don't matter";
  EXPECT_EQ(column->shape, (Shape{8, 1}));
}

TEST(Inspect, ExpertsLayersAndLatents) {
  const TempFolder folder;
  write_hf(folder);
  folder.write("config.json", R"({"model_type": "deepseek_v3", "vocab_size": 6, "hidden_size": 8,
      "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
      "n_routed_experts": 4, "num_experts_per_tok": 2, "kv_lora_rank": 6, "qk_nope_head_dim": 4,
      "qk_rope_head_dim": 2, "v_head_dim": 4})");
  const auto deepseek = open_model(folder.path());
  ASSERT_TRUE(deepseek) << deepseek.error().message;
  EXPECT_THAT(describe_model(*deepseek), ::testing::HasSubstr("4, 2 per token"));
  EXPECT_THAT(describe_model(*deepseek), ::testing::HasSubstr("(32 bytes of KV per token"));
  folder.write("config.json", R"({"model_type": "qwen3_next", "vocab_size": 6, "hidden_size": 32,
      "intermediate_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2})");
  const auto next = open_model(folder.path());
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_THAT(describe_model(*next),
              ::testing::HasSubstr("4: 1 full_attention, 3 linear_attention"));
}

TEST(Inspect, DescribesAModel) {
  const TempFolder folder;
  const auto files = open_model(folder.write(
      "m.gguf", tiny_llama_gguf().str("tokenizer.chat_template", "first\nsecond").build()));
  ASSERT_TRUE(files) << files.error().message;
  const std::string text = describe_model(*files);
  for (const char* part :
       {"llama (llama)", "GGUF version 3", "2 query, 1 key-value, of 4",
        "6 tokens, head tied to the embedding", "20 tensors", "first", "64 tokens"}) {
    EXPECT_THAT(text, ::testing::HasSubstr(part));
  }
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("second")));
  EXPECT_THAT(describe_model(*files, {.list_tensors = true}),
              ::testing::HasSubstr("model.layers.1.mlp.down_proj.weight  F32  [8, 16]  512 bytes"));
  // Embedding 48, norms 5 x 8, and per layer 64 + 32 + 32 + 64 + 3 x 128.
  EXPECT_EQ(count_parameters(*files->weights), 48 + 40 + 2 * 576);
}

}  // namespace
}  // namespace quire
