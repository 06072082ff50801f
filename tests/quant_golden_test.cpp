// Every model under tests/golden-quant: AWQ, GPTQ, compressed-tensors, FP8 and MXFP4 checkpoints
// against what transformers computes from exactly the dequantized weights. In float32 the logits
// within the tolerance of other float32 kernels and all greedy tokens; under `auto` within the
// tolerances of tests/golden-quant/README.md. The folders say what there is; no model is named.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "golden_check.h"
#include "step_driver.h"
#include "weights/weight_source.h"

namespace quire {
namespace {
namespace fs = std::filesystem;
namespace json = boost::json;

constexpr float kFastMargin = 0.3f;  // otherwise tokens are compared up to the first such margin

bool has_experts(const std::string& name) {
  std::ifstream file(source_path("tests/golden-quant/" + name + "/golden.json"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const json::value golden = json::parse(text);
  for (const json::value& feature : golden.as_object().at("features").as_array()) {
    if (std::string_view(feature.as_string()).starts_with("moe ")) return true;
  }
  return false;
}

GoldenResult run_quantized(const std::string& name, const std::string& dtype, float stop_margin) {
  const std::string folder = "tests/golden-quant/" + name;
  const LoadedModel model = load_for_test(folder, dtype);
  EXPECT_TRUE(model.weights->unused_names().empty())
      << "left over: " << model.weights->unused_names().front();
  GoldenOptions options;
  options.stop_margin = stop_margin;
  GoldenResult result = compare_with_golden(model, folder + "/golden.safetensors", options);
  std::printf("%s %s: worst %.2g, mean %.2g, top-1 logprob %.2g, same best %.3g\n", name.c_str(),
              dtype.c_str(), static_cast<double>(result.worst), result.mean,
              static_cast<double>(result.worst_top1), result.same_best);
  return result;
}

class QuantGoldens : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantGoldens, Float32) {
  const GoldenResult result = run_quantized(GetParam(), "float32", 0);
  EXPECT_LE(result.worst, kExact);
  expect_tokens(result, kKnifeEdge);
}

TEST_P(QuantGoldens, Auto) {
  const GoldenResult result = run_quantized(GetParam(), "auto", kFastMargin);
  if (has_experts(GetParam())) {  // a flip in the routing moves single positions
    const auto within = std::count_if(result.position_worst.begin(), result.position_worst.end(),
                                      [](float error) { return error <= 0.8f; });
    EXPECT_GE(static_cast<double>(within), 0.8 * static_cast<double>(result.position_worst.size()));
    return;
  }
  EXPECT_LE(result.worst, 0.8f);
  EXPECT_LT(result.mean, 0.08);
  expect_tokens(result, kFastMargin);
}

INSTANTIATE_TEST_SUITE_P(Folders, QuantGoldens,
                         ::testing::ValuesIn(golden_names("tests/golden-quant")),
                         [](const auto& tested) { return tested.param; });

// --quantization of a plain model: less memory, logits close by.
TEST(QuantizedAtLoad, LogitsStayClose) {
  const std::string folder = "tests/golden/llama";
  for (const char* quantization : {"int8", "int4"}) {
    EngineFlags flags;
    flags.quantization = quantization;
    const LoadedModel model = load_for_test(folder, "auto", flags);
    const GoldenResult result = compare_with_golden(model, folder + "/golden.safetensors");
    std::printf("%s: worst %.2g, mean %.2g, same best %.3g\n", quantization,
                static_cast<double>(result.worst), result.mean, result.same_best);
    EXPECT_LT(result.mean, flags.quantization == "int8" ? 0.15 : 1.5);
    EXPECT_GT(result.same_best, flags.quantization == "int8" ? 0.9 : 0.5);
  }
  EngineFlags flags;
  flags.quantization = "int8";
  flags.model = source_path("tests/golden-quant/gptq_llama_g128");
  const Result<LoadedModel> refused = load_model(flags);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("quantized already (gptq)"), std::string::npos);
}

// K and V in int8 move the logits no more than half precision does.
TEST(KvCacheInt8, LogitsStayClose) {
  EngineFlags flags;
  flags.kv_cache_dtype = "int8";
  // With sinks, slopes, chunks and a latent too.
  for (const char* folder :
       {"tests/golden/llama", "tests/golden/qwen3", "tests/golden/gemma2", "tests/golden/gpt_oss",
        "tests/golden/falcon_alibi", "tests/golden/llama4_text", "tests/golden/deepseek_v2"}) {
    const LoadedModel model = load_for_test(folder, "float32", flags);
    GoldenOptions options;
    options.stop_margin = kFastMargin;
    const GoldenResult result =
        compare_with_golden(model, std::string(folder) + "/golden.safetensors", options);
    std::printf("%s int8 KV: worst %.2g, mean %.2g, same best %.3g\n", folder,
                static_cast<double>(result.worst), result.mean, result.same_best);
    EXPECT_LT(result.mean, 0.1) << folder;
    EXPECT_GT(result.mean, 0.0) << folder;
    expect_tokens(result, kFastMargin);
  }
}

}  // namespace
}  // namespace quire
