// Models in the arithmetic that --dtype auto chooses for them, quantized weights by integer
// products among them, against what transformers computes. all_golden_test.cpp has every model in
// float32, bfloat16 and float16.
#include <gtest/gtest.h>

#include "golden_check.h"
#include "step_driver.h"

namespace quire {
namespace {

struct AutoCase {
  const char* model;   // relative to tests/
  const char* golden;  // relative to tests/
  float worst;         // bound of any logit's error
  float mean;          // bound of the mean error
  float top1;          // bound of the error of the best token's log-probability
};
std::ostream& operator<<(std::ostream& out, const AutoCase& c) { return out << c.model; }

class ModelGolden : public ::testing::TestWithParam<AutoCase> {};

TEST_P(ModelGolden, LogitsAndGreedyTokens) {
  const AutoCase& c = GetParam();
  const LoadedModel model = load_for_test(std::string("tests/") + c.model, "auto");
  const GoldenResult result = compare_with_golden(model, std::string("tests/") + c.golden);
  std::printf("%s auto: worst %.2g, mean %.2g, top-1 logprob %.2g\n", c.model,
              static_cast<double>(result.worst), result.mean,
              static_cast<double>(result.worst_top1));
  EXPECT_LE(result.worst, c.worst);
  EXPECT_LE(result.mean, static_cast<double>(c.mean));
  EXPECT_LE(result.worst_top1, c.top1);
  for (std::size_t p = 0; p < result.first_difference.size(); ++p) {
    EXPECT_LT(result.margins_at_difference[p], 0.3f + c.worst / 4)
        << "prompt " << p << ", token " << result.first_difference[p];
  }
}

INSTANTIATE_TEST_SUITE_P(
    HuggingFace, ModelGolden,
    ::testing::Values(
        AutoCase{"golden/llama", "golden/llama/golden.safetensors", 1.5f, 0.12f, 0.5f},
        AutoCase{"golden/mistral", "golden/mistral/golden.safetensors", 1.5f, 0.12f, 0.5f},
        AutoCase{"golden/mistral_full", "golden/mistral_full/golden.safetensors", 1.5f, 0.12f,
                 0.5f}));

INSTANTIATE_TEST_SUITE_P(
    Gguf, ModelGolden,
    ::testing::Values(AutoCase{"golden-gguf/llama.F16.gguf",
                               "golden-gguf/llama.F16.golden.safetensors", 0.3f, 0.03f, 0.1f},
                      AutoCase{"golden-gguf/llama.BF16.gguf",
                               "golden-gguf/llama.BF16.golden.safetensors", 1.5f, 0.12f, 0.5f},
                      AutoCase{"golden-gguf/llama.Q8_0.gguf",
                               "golden-gguf/llama.Q8_0.golden.safetensors", 1.0f, 0.1f, 0.3f},
                      AutoCase{"golden-gguf/llama.Q4_0.gguf",
                               "golden-gguf/llama.Q4_0.golden.safetensors", 1.0f, 0.1f, 0.3f},
                      AutoCase{"golden-gguf/llama.Q4_1.gguf",
                               "golden-gguf/llama.Q4_1.golden.safetensors", 1.0f, 0.1f, 0.3f},
                      AutoCase{"golden-gguf/llama.Q5_0.gguf",
                               "golden-gguf/llama.Q5_0.golden.safetensors", 1.0f, 0.1f, 0.3f},
                      AutoCase{"golden-gguf/llama.Q5_1.gguf",
                               "golden-gguf/llama.Q5_1.golden.safetensors", 1.0f, 0.1f, 0.3f}));

}  // namespace
}  // namespace quire
