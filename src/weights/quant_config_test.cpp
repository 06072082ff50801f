#include "weights/quant_config.h"

#include "weights/json_fields.h"
#include "weights/test_files.h"

namespace quire {
namespace {

using testing::expect_error;

Result<QuantConfig> parse_quant(const std::string& text) {
  QUIRE_ASSIGN(const boost::json::object object, parse_json_object(text, "config.json"));
  return parse_quant_config(object, "config.json");
}
QuantConfig parsed_quant(const std::string& text) {
  const auto config = parse_quant(text);
  EXPECT_TRUE(config) << config.error().message;
  return config.value_or(QuantConfig{});
}

TEST(QuantConfig, Awq) {
  const QuantConfig config = parsed_quant(
      R"({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": true,
          "version": "GEMM", "modules_to_not_convert": null})");
  EXPECT_EQ(config.method, QuantMethod::kAwq);
  EXPECT_EQ(config.scheme.group_size, 64);
  EXPECT_EQ(config.describe(), "awq, 4 bits, groups of 64");
  EXPECT_EQ(
      parsed_quant(R"({"quant_method": "awq", "w_bit": 4, "q_group_size": 32})").scheme.group_size,
      32)
      << "the names of an older file";
}

TEST(QuantConfig, GptqRulesInOrder) {
  const QuantConfig config = parsed_quant(
      R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true,
          "dynamic": {"-:.*o_proj": {}, "+:.*\\.down_proj$": {"bits": 8, "group_size": 64},
                      ".*layers\\.1\\..*": {"group_size": -1}}})");
  EXPECT_TRUE(config.zeros_less_one && config.act_order);
  EXPECT_EQ(config.scheme_of("model.layers.1.mlp.down_proj").bits, 8);
  EXPECT_EQ(config.scheme_of("model.layers.1.mlp.down_proj").group_size, 64);
  EXPECT_EQ(config.scheme_of("model.layers.1.mlp.up_proj").group_size, -1);
  EXPECT_EQ(config.scheme_of("model.layers.0.mlp.up_proj").group_size, 128);
  EXPECT_FALSE(
      parsed_quant(R"({"quant_method": "gptq", "checkpoint_format": "gptq_v2"})").zeros_less_one);
}

TEST(QuantConfig, CompressedTensorsGroups) {
  const QuantConfig config = parsed_quant(
      R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
          "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int",
                      "strategy": "group", "group_size": 32, "symmetric": false}},
          "group_1": {"targets": ["re:.*down_proj", "model.layers.0.mlp.up_proj"],
                      "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}})");
  EXPECT_FALSE(config.scheme.symmetric);
  EXPECT_EQ(config.scheme_of("model.layers.0.mlp.gate_proj").group_size, 32);
  EXPECT_TRUE(config.scheme_of("model.layers.3.mlp.down_proj").floating);
  EXPECT_EQ(config.scheme_of("model.layers.0.mlp.up_proj").group_rows, -1);
}

// How activations would be quantized, also ahead of time, says nothing of the weights.
TEST(QuantConfig, CompressedTensorsOfStaticActivations) {
  for (const char* symmetric : {"true", "false"}) {
    const QuantConfig config = parsed_quant(
        std::string(R"({"quant_method": "compressed-tensors", "format": "int-quantized",
          "config_groups": {"group_0": {"targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true},
            "input_activations": {"num_bits": 8, "type": "int", "strategy": "tensor",
                                  "dynamic": false, "symmetric": )") +
        symmetric + "}}}}");
    EXPECT_EQ(config.scheme.bits, 8);
    EXPECT_EQ(config.scheme.group_size, -1);
    EXPECT_EQ(config.scheme.group_rows, 1);
    EXPECT_TRUE(config.scheme.symmetric) << "the weights'";
  }
}

TEST(QuantConfig, Fp8Blocks) {
  const QuantConfig config =
      parsed_quant(R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 64]})");
  EXPECT_EQ(config.scheme.group_rows, 128);
  EXPECT_EQ(config.scheme.group_size, 64);
  EXPECT_EQ(config.describe(), "fp8, float8_e4m3, blocks of 128 x 64");
}

TEST(QuantConfig, WhatCannotBeReadIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"group_size": 64, "bits": 4})", "quantization method \"mlx\" is not supported"},
      {R"({"quant_method": "hqq"})", "quantization method \"hqq\" is not supported; known: awq"},
      {R"({})", "quantization method \"unknown\""},
      {R"({"quant_method": 3})", "quant_method"},
      {R"({"quant_method": "awq", "bits": 3})", "bits is 3; weights of 4 and 8 bits"},
      {R"({"quant_method": "awq", "bits": 8})", "AWQ of 8 bits"},
      {R"({"quant_method": "awq", "version": "gemv"})", "version \"gemv\" is not supported"},
      {R"({"quant_method": "awq", "zero_point": false})", "zero_point"},
      {R"({"quant_method": "gptq", "bits": 2})", "bits is 2"},
      {R"({"quant_method": "gptq", "bits": "4"})", "an integer is expected"},
      {R"({"quant_method": "gptq", "group_size": 0})", "group_size is 0"},
      {R"({"quant_method": "gptq", "group_size": -2})", "group_size is -2"},
      {R"({"quant_method": "gptq", "checkpoint_format": "marlin"})",
       "checkpoint_format \"marlin\" is not supported; known: gptq, gptq_v2"},
      {R"({"quant_method": "gptq", "pack_dtype": "int8"})", "pack_dtype \"int8\""},
      {R"({"quant_method": "gptq", "dynamic": {"+:(": {}}})", "\"(\" is not a regular expression"},
      {R"({"quant_method": "gptq", "dynamic": {"+:a": {"bits": 7}}})", "bits is 7"},
      {R"({"quant_method": "compressed-tensors"})", "without config_groups"},
      {R"({"quant_method": "compressed-tensors", "format": "marlin-24"})", "format \"marlin-24\""},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"a": 1}})",
       "\"a\" is not an object"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {}}}})",
       "without a list of targets"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"targets": ["Linear"],
           "weights": {"type": "float", "num_bits": 4}}}})",
       "floating weights of 4 bits"},
      {R"({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24"},
           "config_groups": {"a": {}}})",
       "sparsity_config is not supported"},
      {R"({"quant_method": "fp8", "fmt": "e5m2"})", "fmt \"e5m2\""},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", "weight_block_size"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    expect_error(parse_quant(text), message);
  }
}

TEST(QuantConfig, FlagIsComparedWithTheFile) {
  const auto apply = [](std::string_view asked, QuantConfig config, bool is_gguf,
                        DType stored = DType::kBF16) {
    return apply_quantization(asked, stored, is_gguf, &config);
  };
  const QuantConfig gptq = parsed_quant(R"({"quant_method": "gptq"})"), none;
  EXPECT_TRUE(apply("", gptq, false));
  EXPECT_TRUE(apply("gptq", gptq, false));
  EXPECT_TRUE(apply("gptq_marlin", gptq, false));
  EXPECT_TRUE(apply("gguf", none, true));
  expect_error(apply("awq", gptq, false), "the model's weights are gptq");
  expect_error(apply("awq", none, false), "the model is not quantized");
  expect_error(apply("awq", none, true), "the model's weights are gguf");
  expect_error(apply("int8", gptq, false), "quantized already (gptq)");
  expect_error(apply("int4", none, true, DType::kQ4_K), "quantized already (Q4_K)");
  QuantConfig config;
  EXPECT_TRUE(apply_quantization("int4", DType::kF16, true, &config));
  EXPECT_EQ(config.online_bits, 4);
}

}  // namespace
}  // namespace quire
