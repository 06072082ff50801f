#include <functional>

#include "weights/gguf_file.h"
#include "weights/gguf_names.h"
#include "weights/model_config.h"
#include "weights/test_files.h"

namespace quire {
namespace {

using testing::Bytes;
using testing::ByteWriter;
using testing::expect_error;
using testing::GgufBuilder;
using testing::tiny_llama_gguf;

Result<ModelConfig> parsed_gguf(const GgufBuilder& builder) {
  const Bytes bytes = builder.build();
  const auto file = GgufFile::parse(bytes, "f.gguf");
  if (!file) return tl::unexpected(file.error());
  return parse_gguf_config(*file);
}

TEST(GgufConfig, TinyLlama) {
  const auto config = parsed_gguf(tiny_llama_gguf());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->vocab_size, 6);
  EXPECT_EQ(config->hidden_size, 8);
  EXPECT_EQ(config->intermediate_size, 16);
  EXPECT_EQ(config->num_layers, 2);
  EXPECT_EQ(config->num_heads, 2);
  EXPECT_EQ(config->num_kv_heads, 1);
  EXPECT_EQ(config->head_dim, 4);
  EXPECT_EQ(config->max_position, 64);
  EXPECT_FLOAT_EQ(static_cast<float>(config->norm_eps), 1e-5f);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_TRUE(config->rope.interleaved);
  EXPECT_EQ(config->rope.rotary_dim, 4);
  EXPECT_EQ(config->rope.theta, 10000.0);
  EXPECT_THAT(config->eos_ids, ::testing::ElementsAre(1));
  EXPECT_EQ(config->bos_id, 0);
}

TEST(GgufConfig, Options) {
  GgufBuilder gguf = tiny_llama_gguf();
  gguf.f32("llama.rope.freq_base", 5000).str("llama.rope.scaling.type", "linear");
  gguf.f32("llama.rope.scaling.factor", 4).u32("llama.rope.dimension_count", 2);
  gguf.u32("tokenizer.ggml.eot_token_id", 3).u32("tokenizer.ggml.eom_token_id", 600);
  gguf.f32_tensor("output.weight", {8, 6}).f32_tensor("blk.0.attn_q.bias", {8});
  gguf.f32_tensor("blk.0.attn_output.bias", {8}).f32_tensor("blk.0.ffn_down.bias", {8});
  const auto factor_index = static_cast<float>(gguf.data_bytes / 4);  // the builder's value there
  gguf.f32_tensor("rope_freqs.weight", {1});
  const auto config = parsed_gguf(gguf);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rope.kind, RopeConfig::Kind::kLinear);
  EXPECT_EQ(config->rope.factor, 4.0);
  EXPECT_EQ(config->rope.theta, 5000.0);
  EXPECT_EQ(config->rope.rotary_dim, 2);
  EXPECT_THAT(config->rope.freq_factors, ::testing::ElementsAre(factor_index));
  EXPECT_THAT(config->eos_ids, ::testing::ElementsAre(1, 3)) << "600 is outside the vocabulary";
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_TRUE(config->attention_bias && config->attention_out_bias && config->mlp_bias);
}

TEST(GgufConfig, OlderKeyOfTheLinearFactor) {
  const auto config = parsed_gguf(tiny_llama_gguf().f32("llama.rope.scale_linear", 2));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rope.kind, RopeConfig::Kind::kLinear);
  EXPECT_EQ(config->rope.factor, 2.0);
}

// A tiny model of another architecture: hidden 8, two heads of 4, `layers` layers.
GgufBuilder tiny_gguf(const std::string& arch, std::uint32_t layers) {
  GgufBuilder gguf;
  gguf.str("general.architecture", arch).u32(arch + ".block_count", layers);
  gguf.u32(arch + ".embedding_length", 8).u32(arch + ".feed_forward_length", 16);
  gguf.u32(arch + ".attention.head_count", 2).u32(arch + ".context_length", 64);
  gguf.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  return gguf.f32_tensor("token_embd.weight", {8, 6});
}

std::string gguf_letters(const ModelConfig& config) {
  std::string out;
  for (const std::string& type : config.layer_types) out += type[0];
  return out;
}

TEST(GgufConfig, YarnAndLongrope) {
  GgufBuilder yarn = tiny_gguf("qwen2", 1);
  yarn.str("qwen2.rope.scaling.type", "yarn").f32("qwen2.rope.scaling.factor", 4);
  yarn.u32("qwen2.rope.scaling.original_context_length", 16);
  yarn.f32("qwen2.rope.scaling.yarn_beta_fast", 20);
  yarn.f32("qwen2.rope.scaling.yarn_log_multiplier", 0.07f);
  const auto config = parsed_gguf(yarn);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rope.kind, RopeConfig::Kind::kYarn);
  EXPECT_EQ(config->rope.original_max_position, 16.0);
  EXPECT_EQ(config->rope.beta_fast, 20.0);
  EXPECT_NEAR(config->rope.mscale_all_dim, 0.07, 1e-6) << "a tenth of it is DeepSeek's alone";
  EXPECT_EQ(config->rope.mscale, 1.0);
  EXPECT_FALSE(config->rope.interleaved);
  GgufBuilder longrope = tiny_gguf("phi3", 1);
  longrope.u32("phi3.rope.scaling.original_context_length", 16);
  longrope.f32("phi3.rope.scaling.attn_factor", 1.25f).u32("phi3.attention.sliding_window", 8);
  longrope.f32_tensor("rope_factors_long.weight", {2}).f32_tensor("rope_factors_short.weight", {2});
  const auto phi3 = parsed_gguf(longrope);
  ASSERT_TRUE(phi3) << phi3.error().message;
  EXPECT_EQ(phi3->rope.kind, RopeConfig::Kind::kLongrope);
  EXPECT_EQ(phi3->rope.factor, 4.0);
  EXPECT_EQ(phi3->rope.attention_factor, 1.25);
  EXPECT_EQ(phi3->rope.long_factor.size(), 2u);
  EXPECT_EQ(phi3->sliding_window, 0) << "llama.cpp has no window for it";
}

TEST(GgufConfig, WindowsAndMixedLayers) {
  const auto gemma2 = parsed_gguf(tiny_gguf("gemma2", 3));
  ASSERT_TRUE(gemma2) << gemma2.error().message;
  EXPECT_EQ(gemma2->sliding_window, 4096);
  EXPECT_EQ(gguf_letters(*gemma2), "sfs");
  EXPECT_EQ(gemma2->activation, "gelu_pytorch_tanh");
  EXPECT_EQ(gemma2->fields.number("attn_logit_softcapping", 0), 50);
  EXPECT_EQ(gemma2->fields.integer("query_pre_attn_scalar", 0), 4);
  EXPECT_TRUE(gemma2->fields.boolean("gguf.norm_offset_baked", false));
  GgufBuilder gemma3 = tiny_gguf("gemma3", 7);
  gemma3.u32("gemma3.attention.sliding_window", 5).f32("gemma3.rope.freq_base", 1e6f);
  const auto parsed = parsed_gguf(gemma3);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(gguf_letters(*parsed), "sssssfs");
  ASSERT_TRUE(parsed->sliding_rope);
  EXPECT_EQ(parsed->sliding_rope->theta, 10000.0);
  EXPECT_EQ(gguf_letters(*parsed_gguf(tiny_gguf("qwen3next", 4))), "lllf");
  EXPECT_EQ(gguf_letters(
                *parsed_gguf(tiny_gguf("exaone4", 4).u32("exaone4.attention.sliding_window", 5))),
            "");
}

TEST(GgufConfig, LatentAttention) {
  GgufBuilder gguf = tiny_gguf("deepseek2", 1);
  gguf.u32("deepseek2.attention.kv_lora_rank", 6).u32("deepseek2.attention.key_length", 8);
  gguf.u32("deepseek2.attention.value_length", 6).u32("deepseek2.attention.key_length_mla", 10);
  gguf.u32("deepseek2.attention.value_length_mla", 7).u32("deepseek2.rope.dimension_count", 2);
  gguf.u32("deepseek2.expert_count", 4).u32("deepseek2.expert_gating_func", 2);
  const auto config = parsed_gguf(gguf);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->architecture, "deepseek_v3");
  EXPECT_EQ(config->head_dim, 10);
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_EQ(config->fields.integer("qk_nope_head_dim", 0), 8);
  EXPECT_EQ(config->fields.integer("v_head_dim", 0), 7);
  EXPECT_EQ(config->fields.text("scoring_func", ""), "sigmoid");
}

TEST(GgufConfig, RecommendedSampling) {
  const auto config = parsed_gguf(tiny_llama_gguf().f32("general.sampling.temp", 0.5f));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->generation.temperature, 0.5);
  EXPECT_FALSE(config->generation.top_k);
}

Bytes int_array(std::initializer_list<std::int32_t> values) {
  ByteWriter body;
  body.put(std::uint32_t{5}).put(std::uint64_t{values.size()});
  for (std::int32_t value : values) body.put(value);
  return body.bytes();
}

// The tiny model with other metadata: keys given by `spoil` instead of the usual head counts.
GgufBuilder with_heads(const std::function<void(GgufBuilder&)>& heads) {
  GgufBuilder gguf;
  gguf.str("general.architecture", "llama").u32("llama.block_count", 2);
  gguf.u32("llama.embedding_length", 8).u32("llama.feed_forward_length", 16);
  gguf.u32("llama.context_length", 64).f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  gguf.f32_tensor("token_embd.weight", {8, 6});
  heads(gguf);
  return gguf;
}

TEST(GgufConfig, HeadCountsPerLayer) {
  const auto equal = parsed_gguf(with_heads([](GgufBuilder& g) {
    g.u32("llama.attention.head_count", 4);
    g.raw("llama.attention.head_count_kv", 9, int_array({2, 2}));
  }));
  ASSERT_TRUE(equal) << equal.error().message;
  EXPECT_EQ(equal->num_kv_heads, 2);
  expect_error(parsed_gguf(with_heads([](GgufBuilder& g) {
                 g.u32("llama.attention.head_count", 4);
                 g.raw("llama.attention.head_count_kv", 9, int_array({2, 4}));
               })),
               "differs between layers (2 and 4)");
}

TEST(GgufConfig, RefusesBadValues) {
  const auto heads = [](std::uint32_t n) {
    return with_heads([n](GgufBuilder& g) { g.u32("llama.attention.head_count", n); });
  };
  expect_error(parsed_gguf(heads(0)), "must be positive");
  expect_error(parsed_gguf(heads(4000000000u)), "the limit is 2147483647");
  expect_error(parsed_gguf(with_heads([](GgufBuilder&) {})), "head_count\" is missing");
  expect_error(
      parsed_gguf(with_heads([](GgufBuilder& g) { g.str("llama.attention.head_count", "4"); })),
      "is not an integer");
  expect_error(parsed_gguf(GgufBuilder().u32("x", 1)), "general.architecture\" is missing");
  expect_error(parsed_gguf(GgufBuilder().str("general.architecture", "rwkv7")),
               "\"rwkv7\" is not supported; the nearest that is: ");
  expect_error(parsed_gguf(GgufBuilder().str("general.architecture", "llama")),
               "token_embd.weight");
  const auto tiny = [](auto&& change) {
    GgufBuilder gguf = tiny_llama_gguf();
    change(gguf);
    return parsed_gguf(gguf);
  };
  expect_error(tiny([](auto& g) { g.u32("llama.attention.value_length", 6); }),
               "key size 4 and value size 6 differ");
  expect_error(tiny([](auto& g) { g.str("llama.rope.scaling.type", "spiral"); }),
               "RoPE kind \"spiral\"");
  expect_error(tiny([](auto& g) { g.str("llama.rope.scaling.type", "longrope"); }),
               "needs the tensors \"rope_factors_short.weight\"");
  expect_error(tiny([](auto& g) { g.u32("llama.rope.scaling.original_context_length", 0); }),
               "must be positive");
  expect_error(tiny([](auto& g) { g.str("llama.rope.freq_base", "x"); }), "not a number");
  expect_error(tiny([](auto& g) { g.u32("llama.rope.dimension_count", 3); }),
               "3 rotary dimensions");
  expect_error(tiny([](auto& g) { g.f32_tensor("rope_freqs.weight", {3}); }),
               "F32 [2] is expected");
  expect_error(tiny([](auto& g) { g.tensor({"rope_freqs.weight", {2}, 0, 0}); }), "overlap");
}

TEST(GgufNames, OfOtherFamilies) {
  const char* cases[][3] = {
      {"bloom", "token_embd_norm.bias", "transformer.word_embeddings_layernorm.bias"},
      {"bloom", "blk.2.attn_qkv.bias", "transformer.h.2.self_attention.query_key_value.bias"},
      {"falcon", "blk.0.attn_norm.weight", "transformer.h.0.input_layernorm.weight"},
      {"falcon, two norms", "blk.0.attn_norm.weight", "transformer.h.0.ln_mlp.weight"},
      {"gemma2", "blk.0.ffn_norm.weight", "model.layers.0.pre_feedforward_layernorm.weight"},
      {"gpt_oss", "blk.0.attn_sinks.weight", "model.layers.0.self_attn.sinks"},
      {"gpt_oss", "blk.0.ffn_up_exps.bias", "model.layers.0.mlp.experts.up_proj.bias"},
      {"deepseek_v3", "blk.9.exp_probs_b.bias", "model.layers.9.mlp.gate.e_score_correction_bias"},
      {"mamba", "blk.0.ssm_a", "backbone.layers.0.mixer.A"},
      {"mamba", "blk.0.ssm_dt.bias", "backbone.layers.0.mixer.dt_proj.bias"},
      {"mamba2", "blk.0.ssm_dt.bias", "backbone.layers.0.mixer.dt_bias"},
      {"lfm2", "blk.0.shortconv.in_proj.weight", "model.layers.0.conv.in_proj.weight"},
  };
  for (const auto& [family, gguf, hf] : cases) EXPECT_EQ(hf_name_of_gguf(gguf, family), hf);
}

TEST(GgufNames, MapToHuggingFace) {
  const std::pair<const char*, const char*> pairs[] = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"output.weight", "lm_head.weight"},
      {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
      {"blk.12.attn_q.weight", "model.layers.12.self_attn.q_proj.weight"},
      {"blk.1.attn_k.bias", "model.layers.1.self_attn.k_proj.bias"},
      {"blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"},
      {"blk.1.attn_output.weight", "model.layers.1.self_attn.o_proj.weight"},
      {"blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
      {"blk.1.ffn_gate.weight", "model.layers.1.mlp.gate_proj.weight"},
      {"blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight"},
      {"blk.1.ffn_down.bias", "model.layers.1.mlp.down_proj.bias"},
      // Unknown names have none.
      {"rope_freqs.weight", ""},
      {"blk.1.new_thing.weight", ""},
      {"blk.x.attn_q.weight", ""},
      {"blk..attn_q.weight", ""},
      {"blk.1", ""},
      {"blk.", ""},
      {"plain", ""},
  };
  for (const auto& [gguf, hf] : pairs) EXPECT_EQ(hf_name_of_gguf(gguf, "llama"), hf);
}

}  // namespace
}  // namespace quire
