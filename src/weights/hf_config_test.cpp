#include "weights/hf_families.h"
#include "weights/model_config.h"
#include "weights/test_files.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::tiny_config_json;

ModelConfig parsed(const std::string& config, const std::string& generation = "") {
  const auto result = parse_hf_config(config, generation);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(ModelConfig{});
}

TEST(HfConfig, DefaultsOfLlama) {
  const ModelConfig config = parsed(tiny_config_json());
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.source_architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.vocab_size, 6);
  EXPECT_EQ(config.hidden_size, 8);
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.num_kv_heads, 2) << "as many as query heads";
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.rope.rotary_dim, 4);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_FALSE(config.rope.interleaved);
  EXPECT_EQ(config.max_position, 2048);
  EXPECT_EQ(config.norm_eps, 1e-6);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_FALSE(config.attention_bias || config.attention_out_bias || config.mlp_bias);
  EXPECT_TRUE(config.eos_ids.empty());
  EXPECT_FALSE(config.bos_id);
  EXPECT_FALSE(config.generation.temperature || config.generation.top_k);
}

TEST(HfConfig, EveryOption) {
  const ModelConfig config = parsed(tiny_config_json(
      R"(, "num_key_value_heads": 1, "head_dim": 6, "max_position_embeddings": 4096.0,)"
      R"("rms_norm_eps": 1e-5, "tie_word_embeddings": true, "attention_bias": true,)"
      R"("mlp_bias": true, "hidden_act": "swish", "bos_token_id": 2, "sliding_window": 9)"));
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 6);
  EXPECT_EQ(config.max_position, 4096);
  EXPECT_EQ(config.norm_eps, 1e-5);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_TRUE(config.attention_bias && config.attention_out_bias && config.mlp_bias);
  EXPECT_EQ(config.activation, "silu");
  EXPECT_EQ(config.bos_id, 2);
  EXPECT_EQ(config.sliding_window, 0) << "a llama has none";
}

TEST(HfConfig, Mistral) {
  const std::string kv = R"(, "num_key_value_heads": 2)";
  EXPECT_EQ(parsed(tiny_config_json(kv, "MistralForCausalLM")).sliding_window, 4096);
  EXPECT_EQ(parsed(tiny_config_json(kv + R"(, "sliding_window": 8)", "MistralForCausalLM"))
                .sliding_window,
            8);
  EXPECT_EQ(parsed(tiny_config_json(kv + R"(, "sliding_window": null)", "MistralForCausalLM"))
                .sliding_window,
            0);
  const ModelConfig config =
      parsed(tiny_config_json(R"(, "num_key_value_heads": null)", "MistralForCausalLM"));
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.architecture, "mistral");
  expect_error(parse_hf_config(tiny_config_json("", "MistralForCausalLM"), ""),
               "2 attention heads are not a multiple of 8");
}

TEST(HfConfig, ModelTypeSaysTheArchitecture) {
  const std::string sizes = R"("vocab_size": 6, "hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 2, "num_attention_heads": 2)";
  EXPECT_EQ(parsed(R"({"model_type": "llama", )" + sizes + "}").source_architecture, "llama");
  EXPECT_EQ(parsed(R"({"model_type": "seed-oss", )" + sizes + "}").architecture, "seed_oss");
  expect_error(parse_hf_config("{" + sizes + "}", ""), "neither \"model_type\" nor");
}

TEST(HfConfig, ClassesWithoutModelType) {
  const std::pair<const char*, const char*> cases[] = {
      {"LlamaForCausalLM", "llama"},        {"Qwen2ForCausalLM", "qwen2"},
      {"Qwen2MoeForCausalLM", "qwen2_moe"}, {"DeepseekV3ForCausalLM", "deepseek_v3"},
      {"GPT2LMHeadModel", "gpt2"},          {"GPTNeoXForCausalLM", "gpt_neox"},
      {"GptOssForCausalLM", "gpt_oss"},     {"Ernie4_5_MoeForCausalLM", "ernie4_5_moe"},
      {"Glm4MoeForCausalLM", "glm4_moe"},   {"Gemma3ForCausalLM", "gemma3_text"},
      {"Lfm2MoeForCausalLM", "lfm2_moe"},   {"Qwen3NextForCausalLM", "qwen3_next"},
  };
  for (const auto& [name, architecture] : cases) {
    EXPECT_EQ(parsed(tiny_config_json(R"(, "num_key_value_heads": 2, "head_dim": 16)", name))
                  .architecture,
              architecture);
  }
}

TEST(HfConfig, AnArchitectureThatIsNotKnownGetsTheNearest) {
  // Whatever else its configuration says or lacks.
  for (const std::string& sizes : {tiny_config_json(), std::string(R"({"d_model": 8})")}) {
    std::string config = sizes;
    config.replace(0, 1, R"({"model_type": "qwen3-5", )");
    expect_error(parse_hf_config(config, ""), "is not supported; the nearest that is: qwen3");
  }
  expect_error(parse_hf_config(tiny_config_json("", "FooBarForCausalLM"), ""),
               "config.json: architecture \"FooBarForCausalLM\" is not supported; the nearest");
  EXPECT_EQ(model_type_of_class("FooBarForCausalLM"), "foo_bar");
}

TEST(HfConfig, BothSpellingsOfDType) {
  EXPECT_EQ(parsed(tiny_config_json(R"(, "dtype": "bfloat16")")).stored_dtype, DType::kBF16);
  EXPECT_EQ(parsed(tiny_config_json(R"(, "torch_dtype": "float16")")).stored_dtype, DType::kF16);
  EXPECT_EQ(parsed(tiny_config_json(R"(, "torch_dtype": null)")).stored_dtype, DType::kF32);
  expect_error(parse_hf_config(tiny_config_json(R"(, "dtype": "int3")"), ""), "dtype \"int3\"");
}

TEST(HfConfig, BothSpellingsOfRope) {
  const char* numbers = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 32})";
  for (const std::string& text :
       {std::string(R"(, "rope_theta": 5000, "rope_scaling": {"rope_type": "llama3", )") + numbers,
        std::string(R"(, "rope_parameters": {"rope_theta": 5000, "rope_type": "llama3", )") +
            numbers,
        std::string(R"(, "rope_theta": 5000.0, "rope_scaling": {"type": "llama3", )") + numbers}) {
    const RopeConfig rope = parsed(tiny_config_json(text)).rope;
    EXPECT_EQ(rope.kind, RopeConfig::Kind::kLlama3);
    EXPECT_EQ(rope.theta, 5000.0);
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.high_freq_factor, 4.0);
    EXPECT_EQ(rope.original_max_position, 32.0);
  }
  const RopeConfig linear =
      parsed(tiny_config_json(R"(, "rope_scaling": {"type": "linear", "factor": 4})")).rope;
  EXPECT_EQ(linear.kind, RopeConfig::Kind::kLinear);
  EXPECT_EQ(linear.factor, 4.0);
  EXPECT_EQ(parsed(tiny_config_json(R"(, "rope_scaling": null)")).rope.kind,
            RopeConfig::Kind::kDefault);
  EXPECT_EQ(parsed(tiny_config_json(R"(, "partial_rotary_factor": 0.5)")).rope.rotary_dim, 2);
}

TEST(HfConfig, EndsOfSequenceFromBothFiles) {
  const ModelConfig config = parsed(tiny_config_json(R"(, "eos_token_id": 4, "bos_token_id": 99)"),
                                    R"({"eos_token_id": [5, 1, 4, -1, 77], "bos_token_id": 3})");
  EXPECT_THAT(config.eos_ids, ::testing::ElementsAre(1, 4, 5)) << "sorted, unique, in range";
  EXPECT_EQ(config.bos_id, 3) << "99 is outside the vocabulary";
}

TEST(HfConfig, SamplingDefaultsWhateverDoSampleSays) {
  const auto generation =
      parsed(tiny_config_json(),
             R"({"do_sample": false, "temperature": 0.6, "top_k": 20, "top_p": 0.9,
          "min_p": 0.05, "repetition_penalty": 1.1})")
          .generation;
  EXPECT_EQ(generation.temperature, 0.6);
  EXPECT_EQ(generation.top_k, 20);
  EXPECT_EQ(generation.top_p, 0.9);
  EXPECT_EQ(generation.min_p, 0.05);
  EXPECT_EQ(generation.repetition_penalty, 1.1);
}

TEST(HfConfig, RefusesBadValues) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(, "num_hidden_layers": 0)", "number of layers is 0; it must be from 1 to 4096"},
      {R"(, "num_hidden_layers": -1)", "is -1"},
      {R"(, "model_type": "gemma2", "num_hidden_layers": 2000000000)", "from 1 to 4096"},
      {R"(, "num_hidden_layers": 99999999999)",
       "\"num_hidden_layers\" is 99999999999, the limit is"},
      {R"(, "num_hidden_layers": 1.5)", "an integer is expected"},
      {R"(, "num_hidden_layers": null)", "\"num_hidden_layers\" is missing"},
      {R"(, "num_attention_heads": 0)", "must be positive"},
      {R"(, "num_attention_heads": 3)", "not a multiple of num_attention_heads 3"},
      {R"(, "num_attention_heads": "2")", "\"num_attention_heads\" is \"2\"; an integer"},
      {R"(, "num_key_value_heads": 0)", "key-value heads is 0"},
      {R"(, "num_attention_heads": 4, "num_key_value_heads": 3)", "not a multiple of 3"},
      {R"(, "head_dim": 5)", "an even number from 2 to the head size 5"},
      {R"(, "head_dim": 5000)", "the head size is 5000"},
      {R"(, "vocab_size": 1e15)", "vocabulary size is 1000000000000000"},
      {R"(, "hidden_size": 18446744073709551615)", "an integer is expected"},
      {R"(, "max_position_embeddings": 0)", "context length is 0"},
      {R"(, "rms_norm_eps": 2)", "epsilon is 2"},
      {R"(, "rms_norm_eps": 1e999)", "a finite number is expected"},
      {R"(, "rope_theta": 0)", "RoPE base is 0"},
      {R"(, "rope_theta": [])", "a number is expected"},
      {R"(, "rope_scaling": "linear")", "an object is expected"},
      {R"(, "rope_scaling": {"type": "linear"})", "RoPE factor is 0"},
      {R"(, "rope_scaling": {"type": "linear", "factor": -1})", "RoPE factor is -1"},
      {R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4})",
       "low_freq_factor < high_freq_factor"},
      {R"(, "partial_rotary_factor": 0)", "partial_rotary_factor is 0"},
      {R"(, "rope_scaling": {"rope_type": "spiral", "factor": 4})", "RoPE kind \"spiral\""},
      {R"(, "rope_scaling": {"rope_type": "longrope", "short_factor": [1, 1]})",
       "longrope has 2 short and 0 long factors; 2 rotary pairs need 2 each"},
      {R"(, "rope_scaling": {"rope_type": "longrope", "short_factor": [1, 0]})",
       "not a list of positive numbers"},
      {R"(, "layer_types": ["full_attention"])", "1 layer_types for 2 layers"},
      {R"(, "layer_types": [1, 2])", "not a list of names"},
      {R"(, "qk_nope_head_dim": 0, "qk_rope_head_dim": 4)", "qk_nope_head_dim 0"},
      {R"(, "tie_word_embeddings": 1)", "true or false is expected"},
      {R"(, "eos_token_id": "</s>")", "an integer or a list of integers"},
      {R"(, "eos_token_id": [1, "x"])", "an integer or a list of integers"},
      {R"(, "quantization_config": {"quant_method": "hqq"})", "quantization method \"hqq\""},
      {R"(, "quantization_config": 4)", "quantization_config"},
  };
  for (const auto& [more, message] : cases) {
    SCOPED_TRACE(more);
    expect_error(parse_hf_config(tiny_config_json(more), ""), message);
  }
  expect_error(parse_hf_config("[]", ""), "not an object");
  expect_error(parse_hf_config("", ""), "not valid JSON");
  expect_error(parse_hf_config(tiny_config_json(), "{"), "generation_config.json: not valid JSON");
  expect_error(
      parse_hf_config(tiny_config_json(R"(, "num_key_value_heads": 2, "sliding_window": -1)",
                                       "MistralForCausalLM"),
                      ""),
      "the sliding window is -1");
}

}  // namespace
}  // namespace quire
