// What configurations mean: the traps that a whole model's logits show only together. Whole models
// are compared with transformers in tests/all_golden_test.cpp.
#include "model/architectures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "model/arch_common.h"
#include "weights/hf_families.h"

namespace quire {
namespace {

ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 32;
  config.hidden_size = 64;
  config.intermediate_size = 96;
  config.num_layers = 4;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.rope.rotary_dim = 16;
  config.norm_eps = 1e-3;
  return config;
}

ModelSpec spec_of(std::string_view name, const ModelConfig& config) {
  for (const Architecture& architecture : architectures()) {
    if (architecture.name != name) continue;
    Result<ModelSpec> spec = architecture.spec(config);
    EXPECT_TRUE(spec) << name << ": " << spec.error().message;
    return spec ? *spec : ModelSpec{};
  }
  ADD_FAILURE() << "no architecture " << name;
  return {};
}

std::vector<std::int32_t> windows_of(ModelSpec& model) {
  std::vector<std::int32_t> windows;
  for (LayerSpec& layer : model.layers) windows.push_back(attention_of(layer).window);
  return windows;
}

TEST(Architectures, NamesAreSortedAndUnique) {
  std::set<std::string_view> names;
  std::string_view last;
  for (const Architecture& architecture : architectures()) {
    EXPECT_TRUE(names.insert(architecture.name).second) << architecture.name;
    EXPECT_LT(last, architecture.name);
    last = architecture.name;
    EXPECT_FALSE(architecture.models.empty()) << architecture.name;
  }
}

// Zeros, absent fields and odd shapes are the loader's and the checker's to refuse: nothing here
// may crash on them.
TEST(Architectures, TakeAnyConfiguration) {
  for (const Architecture& architecture : architectures()) {
    for (const bool gguf : {false, true}) {
      ModelConfig config = small_config();
      config.from_gguf = gguf;
      for (const char* field :
           {"sliding_window_pattern", "no_rope_layer_interval", "decoder_sparse_step",
            "moe_layer_freq", "expert_layer_period", "attn_layer_period", "moe_layer_interval",
            "interleave_moe_layer_step", "full_attention_interval", "block_multiple_of"}) {
        config.fields.set(field, std::int64_t{0});
      }
      const Result<ModelSpec> spec = architecture.spec(config);
      if (spec) {
        EXPECT_EQ(spec->layers.size(), 4u) << architecture.name;
      }
      config.num_layers = 0;
      config.num_heads = 0;
      static_cast<void>(architecture.spec(config));
    }
  }
}

TEST(Architectures, WindowsFollowLayerTypesElseTheFamilysRule) {
  ModelConfig config = small_config();
  config.sliding_window = 8;
  ModelSpec gemma2 = spec_of("gemma2", config);
  EXPECT_EQ(windows_of(gemma2), (std::vector<std::int32_t>{8, 0, 8, 0}));
  ModelSpec olmo3 = spec_of("olmo3", config);
  EXPECT_EQ(windows_of(olmo3), (std::vector<std::int32_t>{8, 8, 8, 0}));
  config.layer_types = {"full_attention", "sliding_attention", "full_attention",
                        "sliding_attention"};
  config.sliding_rope = config.rope;
  ModelSpec gemma3 = spec_of("gemma3_text", config);
  EXPECT_EQ(windows_of(gemma3), (std::vector<std::int32_t>{0, 8, 0, 8}));
  EXPECT_EQ(attention_of(gemma3.layers[0]).rope, 0);
  EXPECT_EQ(attention_of(gemma3.layers[1]).rope, 1);
  // Without windows every layer of EXAONE 4 has positions; with them the full ones have none.
  EXPECT_EQ(std::get<AttentionSpec>(spec_of("exaone4", config).layers[0].mixer).rope, -1);
  config.sliding_window = 0;
  EXPECT_EQ(std::get<AttentionSpec>(spec_of("exaone4", config).layers[0].mixer).rope, 0);
}

TEST(Architectures, QwenObeysUseSlidingWindow) {
  ModelConfig config = small_config();
  config.sliding_window = 8;
  config.fields.set("max_window_layers", std::int64_t{2});
  ModelSpec off = spec_of("qwen2", config);
  EXPECT_EQ(windows_of(off), (std::vector<std::int32_t>{0, 0, 0, 0}));
  config.fields.set("use_sliding_window", true);
  ModelSpec on = spec_of("qwen2", config);
  EXPECT_EQ(windows_of(on), (std::vector<std::int32_t>{0, 0, 8, 8}));
}

TEST(Architectures, AGgufHasTheNormOffsetInItsWeights) {
  ModelConfig config = small_config();
  for (const char* name : {"gemma", "gemma2", "gemma3_text", "nemotron", "qwen3_next"}) {
    config.from_gguf = false;
    EXPECT_EQ(spec_of(name, config).final_norm.offset, 1.0f) << name;
    config.from_gguf = true;
    EXPECT_EQ(spec_of(name, config).final_norm.offset, 0.0f) << name;
  }
}

TEST(Architectures, FalconsThreeShapes) {
  ModelConfig config = small_config();
  const auto attention = [&] {
    return std::get<AttentionSpec>(spec_of("falcon", config).layers[0].mixer);
  };
  EXPECT_EQ(attention().kv_heads, 1);  // multi-query, whatever num_kv_heads says
  EXPECT_EQ(attention().layout, QkvLayout::kFused);
  config.fields.set("multi_query", false);
  EXPECT_EQ(attention().kv_heads, 4);
  EXPECT_EQ(attention().layout, QkvLayout::kPerHead);
  config.fields.set("new_decoder_architecture", true);
  EXPECT_EQ(attention().kv_heads, 2);
  EXPECT_EQ(attention().layout, QkvLayout::kPerGroup);
  EXPECT_EQ(spec_of("falcon", config).layers[0].mlp_norm.name, "ln_mlp");
}

TEST(Architectures, YarnScalesTheSoftmaxOfLatentAttention) {
  ModelConfig config = small_config();
  for (const char* field : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    config.fields.set(field, std::int64_t{8});
  }
  config.rope.kind = RopeConfig::Kind::kYarn;
  config.rope.factor = 4.0;
  const float plain = std::get<MlaSpec>(spec_of("deepseek_v3", config).layers[0].mixer).scale;
  EXPECT_FLOAT_EQ(plain, 0.25f);
  config.rope.mscale_all_dim = 1.0;
  const double mscale = 0.1 * std::log(4.0) + 1.0;
  const MlaSpec mla = std::get<MlaSpec>(spec_of("deepseek_v3", config).layers[0].mixer);
  EXPECT_FLOAT_EQ(mla.scale, static_cast<float>(0.25 * mscale * mscale));
  EXPECT_FLOAT_EQ(mla.kv_norm.eps, 1e-6f);
  config.from_gguf = true;
  EXPECT_FLOAT_EQ(std::get<MlaSpec>(spec_of("deepseek_v3", config).layers[0].mixer).kv_norm.eps,
                  1e-3f);
}

// A configuration of a family without a row would be refused before it came here.
TEST(Architectures, EachHasARowAmongTheFamilies) {
  for (const Architecture& architecture : architectures())
    EXPECT_EQ(hf_family(architecture.name).model_type, architecture.name);
}

TEST(Architectures, AlibiSlopes) {
  EXPECT_EQ(alibi_slopes(4), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  // Six heads: the four of a power of two, then the first and the third of eight.
  EXPECT_EQ(alibi_slopes(6),
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  ModelConfig config = small_config();
  config.num_heads = 3;  // MPT: of four, every other one first
  const AttentionSpec mpt = std::get<AttentionSpec>(spec_of("mpt", config).layers[0].mixer);
  EXPECT_EQ(mpt.alibi_slopes, (std::vector<float>{0.0625f, 0.00390625f, 0.25f}));
}

TEST(Architectures, WhatIsNotSupportedSaysSo) {
  ModelConfig config = small_config();
  config.fields.set("hidden_act", std::string("softplus"));
  const Result<ModelSpec> llama = llama_spec(config);
  ASSERT_FALSE(llama);
  EXPECT_EQ(llama.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(llama.error().message.find("softplus"), std::string::npos);
  ModelConfig opt = small_config();
  opt.fields.set("word_embed_proj_dim", std::int64_t{-3});
  EXPECT_FALSE(opt_spec(opt));
}

TEST(Architectures, MptWithoutAlibiHasLearnedPositionsAndMayNormQAndK) {
  ModelConfig config = small_config();
  EXPECT_FALSE(
      std::get<AttentionSpec>(spec_of("mpt", config).layers[0].mixer).alibi_slopes.empty());
  config.fields.set("attn_config.alibi", false);
  config.fields.set("attn_config.qk_ln", true);
  config.fields.set("no_bias", false);
  const ModelSpec model = spec_of("mpt", config);
  const auto& attention = std::get<AttentionSpec>(model.layers[0].mixer);
  EXPECT_TRUE(attention.alibi_slopes.empty());
  EXPECT_EQ(attention.rope, -1);
  EXPECT_EQ(model.position_embedding, "transformer.wpe");
  EXPECT_EQ(attention.q_norm.name, "attn.q_ln");
  EXPECT_TRUE(attention.norm_all_heads && attention.k_norm.bias && model.layers[0].input_norm.bias);
}

}  // namespace
}  // namespace quire
