// Each family's own spelling of its configuration, on small inputs, and every config.json of the
// golden set where the tree has it.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/source_path.h"
#include "weights/config_fields.h"
#include "weights/model_config.h"
#include "weights/test_files.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using Kind = RopeConfig::Kind;
using testing::expect_error;

ModelConfig parsed_family(const std::string& config) {
  const auto result = parse_hf_config(config, "");
  EXPECT_TRUE(result) << result.error().message << "\n" << config;
  return result.value_or(ModelConfig{});
}

// The usual sizes under the usual names, of `layers` layers.
std::string usual(const std::string& model_type, int layers, const std::string& more) {
  return R"({"model_type": ")" + model_type +
         R"(", "vocab_size": 6, "hidden_size": 32, "intermediate_size": 64,)" +
         R"("num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": )" +
         std::to_string(layers) + more + "}";
}

// One letter per layer: the first of its type.
std::string letters(const ModelConfig& config) {
  std::string out;
  for (const std::string& type : config.layer_types) out += type[0];
  return out;
}

TEST(HfFamilies, Gpt2Spelling) {
  const ModelConfig config = parsed_family(
      R"({"model_type": "gpt2", "vocab_size": 6, "n_embd": 8, "n_head": 2, "n_layer": 3,
          "n_positions": 64, "n_inner": null, "activation_function": "gelu_new"})");
  EXPECT_EQ(config.hidden_size, 8);
  EXPECT_EQ(config.intermediate_size, 32);
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.max_position, 64);
  EXPECT_EQ(config.norm_eps, 1e-5);
  EXPECT_EQ(config.activation, "gelu_pytorch_tanh");
  EXPECT_TRUE(config.tied_embeddings && config.attention_bias && config.mlp_bias);
  EXPECT_EQ(config.rope.rotary_dim, 0) << "no rotary positions";
  EXPECT_EQ(config.fields.integer("n_embd", 0), 8);
}

TEST(HfFamilies, FalconHeads) {
  const std::string base = R"(, "num_kv_heads": 2, "multi_query": true, "bias": true)";
  EXPECT_EQ(parsed_family(usual("falcon", 1, base)).num_kv_heads, 1);
  EXPECT_EQ(parsed_family(usual("falcon", 1, R"(, "multi_query": false)")).num_kv_heads, 2);
  const std::string grouped =
      R"({"model_type": "falcon", "vocab_size": 6, "hidden_size": 32, "num_attention_heads": 4,
          "num_hidden_layers": 1, "num_kv_heads": 2, "new_decoder_architecture": true})";
  EXPECT_EQ(parsed_family(grouped).num_kv_heads, 2);
  EXPECT_EQ(parsed_family(grouped).intermediate_size, 128);
}

TEST(HfFamilies, DbrxAndMptNestTheirFields) {
  const ModelConfig dbrx = parsed_family(
      R"({"model_type": "dbrx", "vocab_size": 6, "d_model": 32, "n_heads": 4, "n_layers": 2,
          "max_seq_len": 64, "attn_config": {"clip_qkv": 2.5, "kv_n_heads": 2, "rope_theta": 500},
          "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 4,
                         "ffn_act_fn": {"name": "silu"}}})");
  EXPECT_EQ(dbrx.num_kv_heads, 2);
  EXPECT_EQ(dbrx.intermediate_size, 48);
  EXPECT_EQ(dbrx.rope.theta, 500.0);
  EXPECT_EQ(dbrx.max_position, 64);
  EXPECT_EQ(dbrx.fields.number("attn_config.clip_qkv", 0), 2.5);
  EXPECT_EQ(dbrx.fields.integer("ffn_config.moe_num_experts", 0), 4);
  const ModelConfig mpt = parsed_family(
      R"({"model_type": "mpt", "vocab_size": 6, "d_model": 32, "n_heads": 4, "n_layers": 2,
          "expansion_ratio": 3, "attn_config": {"alibi": true}})");
  EXPECT_EQ(mpt.intermediate_size, 128) << "the expansion ratio is not obeyed";
  EXPECT_TRUE(mpt.fields.boolean("attn_config.alibi", false));
}

TEST(HfFamilies, RotaryShareUnderEveryName) {
  EXPECT_EQ(parsed_family(usual("gpt_neox", 1, R"(, "rotary_pct": 0.5, "rotary_emb_base": 777)"))
                .rope.theta,
            777.0);
  EXPECT_EQ(parsed_family(usual("gpt_neox", 1, "")).rope.rotary_dim, 4) << "a quarter of 16";
  EXPECT_EQ(parsed_family(usual("gptj", 1, R"(, "rotary_dim": 6)")).rope.rotary_dim, 6);
  EXPECT_EQ(parsed_family(usual("phi", 1, "")).rope.rotary_dim, 8);
  EXPECT_EQ(parsed_family(
                usual("qwen3_next", 1, R"(, "rope_parameters": {"partial_rotary_factor": 0.5})"))
                .rope.rotary_dim,
            8)
      << "rope_parameters wins over the default";
  EXPECT_TRUE(parsed_family(usual("cohere", 1, "")).rope.interleaved);
  EXPECT_FALSE(parsed_family(usual("glm4_moe", 1, "")).rope.interleaved);
}

TEST(HfFamilies, LatentAttentionHeads) {
  const ModelConfig config =
      parsed_family(usual("deepseek_v3", 1, R"(, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
          "head_dim": 8, "rope_interleave": true)"));
  EXPECT_EQ(config.head_dim, 24);
  EXPECT_EQ(config.rope.rotary_dim, 8);
  EXPECT_TRUE(config.rope.interleaved);
}

TEST(HfFamilies, EveryRopeKind) {
  const auto rope = [](const std::string& scaling) {
    return parsed_family(
               usual("llama", 1, R"(, "max_position_embeddings": 256, "rope_scaling": )" + scaling))
        .rope;
  };
  const RopeConfig yarn = rope(R"({"type": "yarn", "factor": 4, "beta_fast": 16, "truncate": false,
      "original_max_position_embeddings": 32, "mscale": 0.7, "attention_factor": 1.5})");
  EXPECT_EQ(yarn.kind, Kind::kYarn);
  EXPECT_EQ(yarn.beta_fast, 16.0);
  EXPECT_EQ(yarn.original_max_position, 32.0);
  EXPECT_EQ(yarn.mscale, 0.7);
  EXPECT_EQ(yarn.attention_factor, 1.5);
  EXPECT_FALSE(yarn.truncate);
  const RopeConfig dynamic = rope(R"({"type": "dynamic", "factor": 4})");
  EXPECT_EQ(dynamic.kind, Kind::kDynamic);
  EXPECT_EQ(dynamic.original_max_position, 256.0);
  const RopeConfig alpha = rope(R"({"type": "dynamic", "factor": 1, "alpha": 50})");
  EXPECT_EQ(alpha.kind, Kind::kDefault);
  EXPECT_NEAR(alpha.theta, 10000 * std::pow(50.0, 16.0 / 14.0), 1e-6);
  const RopeConfig longrope =
      rope(R"({"type": "su", "short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "short_mscale": 1.2,
        "long_factor": [1, 2, 3, 4, 5, 6, 7, 8], "original_max_position_embeddings": 64})");
  EXPECT_EQ(longrope.kind, Kind::kLongrope);
  EXPECT_EQ(longrope.factor, 4.0);
  EXPECT_EQ(longrope.long_factor[7], 8.0);
  EXPECT_EQ(longrope.short_mscale, 1.2);
  EXPECT_FALSE(longrope.long_mscale);
  const RopeConfig still = rope(R"({"type": "proportional", "partial_rotary_factor": 0.25})");
  EXPECT_EQ(still.rotary_dim, 16);
  EXPECT_EQ(still.freq_factors[1], 1.0f);
  EXPECT_TRUE(std::isinf(still.freq_factors[2])) << "frequency 0: does not turn";
}

TEST(HfFamilies, RopePerLayerType) {
  const std::string types = R"(, "layer_types": ["sliding_attention", "full_attention"],
      "sliding_window": 8)";
  for (const std::string& rope :
       {std::string(R"(, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8,
          "rope_theta": 100000}, "sliding_attention": {"rope_type": "default",
          "rope_theta": 1000}})"),
        std::string(R"(, "rope_theta": 100000, "rope_local_base_freq": 1000,
          "rope_scaling": {"rope_type": "linear", "factor": 8})")}) {
    const ModelConfig config = parsed_family(usual("gemma3_text", 2, types + rope));
    EXPECT_EQ(config.rope.kind, Kind::kLinear);
    EXPECT_EQ(config.rope.theta, 100000.0);
    ASSERT_TRUE(config.sliding_rope);
    EXPECT_EQ(config.sliding_rope->kind, Kind::kDefault);
    EXPECT_EQ(config.sliding_rope->theta, 1000.0);
    EXPECT_EQ(config.sliding_rope->rotary_dim, 256) << "the family's head size";
  }
}

TEST(HfFamilies, ImpliedLayerTypes) {
  const auto types = [](const std::string& model_type, int layers, const std::string& more) {
    return letters(parsed_family(usual(model_type, layers, more)));
  };
  const std::string window = R"(, "sliding_window": 8)";
  EXPECT_EQ(types("gemma2", 4, window), "sfsf");
  EXPECT_EQ(types("gemma3_text", 7, window), "sssssfs");
  EXPECT_EQ(types("gemma3_text", 3, window + R"(, "sliding_window_pattern": 3)"), "ssf");
  EXPECT_EQ(types("cohere2", 5, window), "sssfs");
  EXPECT_EQ(types("exaone4", 5, window + R"(, "sliding_window_pattern": "LLLG")"), "sssff");
  EXPECT_EQ(types("exaone4", 4, R"(, "sliding_window": null)"), "");
  EXPECT_EQ(types("gpt_oss", 3, ""), "sfs");
  EXPECT_EQ(types("qwen2", 3, window), "");
  EXPECT_EQ(types("qwen2", 3, window + R"(, "use_sliding_window": true, "max_window_layers": 1)"),
            "fss");
  EXPECT_EQ(types("dots1", 3, window + R"(, "max_window_layers": 2)"), "ffs");
  EXPECT_EQ(types("llama4_text", 4, ""), "cccf");
  EXPECT_EQ(types("llama4_text", 3, R"(, "no_rope_layers": [1, 0, 1])"), "cfc");
  EXPECT_EQ(types("qwen3_next", 4, ""), "lllf");
  EXPECT_EQ(types("lfm2", 3, R"(, "full_attn_idxs": [1])"), "cfc");
  EXPECT_EQ(types("jamba", 3, R"(, "attn_layer_period": 3, "attn_layer_offset": 1)"), "mfm");
  EXPECT_EQ(types("mistral", 3, window), "") << "all alike";
}

TEST(HfFamilies, WindowOnlyWhereItIsUsed) {
  const auto window = [](const std::string& model_type, const std::string& more) {
    return parsed_family(usual(model_type, 2, more)).sliding_window;
  };
  EXPECT_EQ(window("qwen2", R"(, "sliding_window": 8, "use_sliding_window": false)"), 0);
  EXPECT_EQ(window("qwen3", R"(, "sliding_window": 8, "use_sliding_window": true,
                              "max_window_layers": 1)"),
            8);
  EXPECT_EQ(window("phi3", R"(, "sliding_window": 8)"), 8);
  EXPECT_EQ(window("phi3", R"(, "sliding_window": null)"), 0);
  EXPECT_EQ(window("llama", R"(, "sliding_window": 8)"), 0);
  EXPECT_EQ(window("gemma2", ""), 4096);
}

TEST(HfFamilies, TextHalfOfAMultimodalModel) {
  const ModelConfig config = parsed_family(
      R"({"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"],
          "eos_token_id": [1, 5], "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 99},
          "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
              "intermediate_size": 10240, "num_hidden_layers": 2, "sliding_window": 1024}})");
  EXPECT_EQ(config.architecture, "gemma3_text");
  EXPECT_EQ(config.source_architecture, "Gemma3ForConditionalGeneration");
  EXPECT_EQ(config.hidden_size, 2560);
  EXPECT_EQ(config.num_heads, 8) << "what the published files leave out";
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.stored_dtype, DType::kBF16);
  EXPECT_THAT(config.eos_ids, ::testing::ElementsAre(1, 5));
}

TEST(HfFamilies, NumbersThatJsonCannotSpell) {
  // As newer files have it, and as Python writes it.
  for (const char* infinity : {R"({"__float__": "Infinity"})", "Infinity"}) {
    const ModelConfig config = parsed_family(
        R"({"model_type": "mamba2", "vocab_size": 6, "hidden_size": 8, "num_hidden_layers": 2,
            "x": "\"Infinity", "y": NaN, "num_heads": 4, "head_dim": 4,
            "time_step_limit": [0.0, )" +
        std::string(infinity) + "]}");
    EXPECT_EQ(config.num_heads, 4);
    EXPECT_EQ(config.intermediate_size, 16);
    EXPECT_EQ(config.fields.text("x", ""), "\"Infinity");
    EXPECT_TRUE(std::isnan(config.fields.number("y", 0)));
    const std::vector<double> limit = config.fields.numbers("time_step_limit");
    ASSERT_EQ(limit.size(), 2u);
    EXPECT_TRUE(std::isinf(limit[1]) && limit[1] > 0);
  }
  expect_error(parse_hf_config(R"({"model_type": "llama", "rms_norm_eps": -Infinity})", ""),
               "\"vocab_size\" is missing");
  expect_error(parse_hf_config(R"({"model_type": Infinit})", ""), "not valid JSON");
}

TEST(HfFamilies, GemmaMeansTheTanhGelu) {
  EXPECT_EQ(parsed_family(usual("gemma", 1, R"(, "hidden_act": "gelu")")).activation,
            "gelu_pytorch_tanh");
  EXPECT_EQ(parsed_family(usual("phi", 1, R"(, "hidden_act": "gelu")")).activation, "gelu");
  EXPECT_EQ(parsed_family(usual("arcee", 1, "")).activation, "relu2");
}

std::string text_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST(HfFamilies, EveryGoldenConfigParses) {
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(source_path("tests/golden"))) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    SCOPED_TRACE(entry.path().filename().string());
    ++folders;
    const auto config = parse_hf_config(text_of(entry.path() / "config.json"),
                                        text_of(entry.path() / "generation_config.json"));
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->vocab_size, 512);
    EXPECT_EQ(config->hidden_size, entry.path().filename() == "bloom_post_norm" ? 96 : 64);
    EXPECT_EQ(config->norm_eps,
              config->architecture == "opt" || config->architecture == "dbrx" ? 1e-5 : 1e-3);
    EXPECT_THAT(config->eos_ids, ::testing::ElementsAre(1, 3));
    EXPECT_TRUE(config->layer_types.empty() ||
                config->layer_types.size() == static_cast<std::size_t>(config->num_layers));
    EXPECT_EQ(config->fields.text("model_type", ""), config->architecture);
  }
  EXPECT_GE(folders, 75);
}

}  // namespace
}  // namespace quire
