// Whole models against what transformers computes from the same files: every logit of every prompt, and the greedy
// continuation. See tests/golden/README.md and tests/golden-gguf/README.md for the tolerances.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "step_driver.h"
#include "weights/safetensors_file.h"

namespace quire {
namespace {

struct Case {
  const char* model;    // relative to tests/
  const char* golden;   // relative to tests/
  const char* dtype;
  float worst;          // bound of any logit's error
  float mean;           // bound of the mean error
  float top1 = 1e-3f;   // bound of the error of the best token's log-probability
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.model << " " << c.dtype; }

template <class T>
std::vector<T> read(const SafetensorsFile& file, const std::string& name) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) throw std::runtime_error("no tensor " + name);
  std::vector<T> values(static_cast<std::size_t>(found->second.shape.elements()));
  std::memcpy(values.data(), found->second.data, values.size() * sizeof(T));
  return values;
}

// Log-probability of token `best` in a row of logits.
float logprob(const float* row, std::size_t vocab, std::size_t best) {
  const float highest = *std::max_element(row, row + vocab);
  double sum = 0;
  for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(static_cast<double>(row[v] - highest));
  return static_cast<float>(static_cast<double>(row[best] - highest) - std::log(sum));
}

class ModelGolden : public ::testing::TestWithParam<Case> {};

TEST_P(ModelGolden, LogitsAndGreedyTokens) {
  const Case& c = GetParam();
  const LoadedModel model = load_for_test(std::string("tests/") + c.model, c.dtype);
  const Result<SafetensorsFile> golden = SafetensorsFile::open(source_path(std::string("tests/") + c.golden));
  ASSERT_TRUE(golden) << golden.error().message;
  const bool exact = std::strcmp(c.dtype, "float32") == 0;
  double sum = 0;
  std::size_t count = 0;
  float worst = 0, worst_top1 = 0;
  for (int p = 0; p < 3; ++p) {
    const std::string prefix = "prompt_" + std::to_string(p) + ".";
    const auto ids = read<std::int64_t>(*golden, prefix + "input_ids");
    const auto logits = read<float>(*golden, prefix + "logits");
    const auto tokens = read<std::int64_t>(*golden, prefix + "greedy_tokens");
    const auto margins = read<float>(*golden, prefix + "greedy_margins");
    const std::vector<TokenId> prompt(ids.begin(), ids.end());
    const PlainRun run = run_plain(*model.runner, prompt, static_cast<int>(tokens.size()));
    const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
    for (std::size_t position = 0; position < prompt.size(); ++position) {
      const std::vector<float>& row = run.logits.at(static_cast<std::int32_t>(position));
      for (std::size_t v = 0; v < vocab; ++v) {
        const float error = std::fabs(row[v] - logits[position * vocab + v]);
        worst = std::isnan(error) ? INFINITY : std::max(worst, error);
        sum += error;
        ++count;
      }
      const float* want = logits.data() + position * vocab;
      const auto best = static_cast<std::size_t>(std::max_element(want, want + vocab) - want);
      worst_top1 = std::max(worst_top1, std::fabs(logprob(row.data(), vocab, best) - logprob(want, vocab, best)));
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (run.tokens[i] == tokens[i]) continue;
      EXPECT_LT(margins[i], exact ? 1e-3f : 0.3f + c.worst / 4) << "prompt " << p << ", token " << i;
      break;   // from here on it is another text
    }
  }
  std::printf("%s %s: worst %.2g, mean %.2g, top-1 logprob %.2g\n", c.model, c.dtype, static_cast<double>(worst),
              sum / static_cast<double>(count), static_cast<double>(worst_top1));
  EXPECT_LE(worst_top1, exact ? 1e-3f : c.top1);
  EXPECT_LE(worst, c.worst);
  EXPECT_LE(sum / static_cast<double>(count), static_cast<double>(c.mean));
}

constexpr float kExact = 5e-4f;
INSTANTIATE_TEST_SUITE_P(HuggingFace, ModelGolden, ::testing::Values(
    Case{"golden/llama", "golden/llama/golden.safetensors", "float32", kExact, kExact},
    Case{"golden/llama_tied_bias", "golden/llama_tied_bias/golden.safetensors", "float32", kExact, kExact},
    Case{"golden/llama_rope_llama3", "golden/llama_rope_llama3/golden.safetensors", "float32", kExact, kExact},
    Case{"golden/llama_rope_linear", "golden/llama_rope_linear/golden.safetensors", "float32", kExact, kExact},
    Case{"golden/mistral", "golden/mistral/golden.safetensors", "float32", kExact, kExact},
    Case{"golden/mistral_full", "golden/mistral_full/golden.safetensors", "float32", kExact, kExact},
    Case{"golden/llama", "golden/llama/golden.safetensors", "auto", 1.5f, 0.12f, 0.5f},
    Case{"golden/llama_tied_bias", "golden/llama_tied_bias/golden.safetensors", "bfloat16", 1.5f, 0.12f, 0.5f},
    Case{"golden/mistral", "golden/mistral/golden.safetensors", "auto", 1.5f, 0.12f, 0.5f},
    Case{"golden/mistral_full", "golden/mistral_full/golden.safetensors", "auto", 1.5f, 0.12f, 0.5f},
    Case{"golden/llama", "golden/llama/golden.safetensors", "float16", 0.3f, 0.03f, 0.1f},
    Case{"golden/mistral_full", "golden/mistral_full/golden.safetensors", "float16", 0.3f, 0.03f, 0.1f}));

INSTANTIATE_TEST_SUITE_P(Gguf, ModelGolden, ::testing::Values(
    Case{"golden-gguf/llama.gguf", "golden/llama/golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama_tied_bias.gguf", "golden/llama_tied_bias/golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama_rope_llama3.gguf", "golden/llama_rope_llama3/golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama_rope_linear.gguf", "golden/llama_rope_linear/golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/mistral.gguf", "golden-gguf/mistral.variant.golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/mistral_full.gguf", "golden/mistral_full/golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama.F16.gguf", "golden-gguf/llama.F16.golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama.BF16.gguf", "golden-gguf/llama.BF16.golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama.Q8_0.gguf", "golden-gguf/llama.Q8_0.golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama.Q4_0.gguf", "golden-gguf/llama.Q4_0.golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama.Q4_1.gguf", "golden-gguf/llama.Q4_1.golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama.Q5_0.gguf", "golden-gguf/llama.Q5_0.golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama.Q5_1.gguf", "golden-gguf/llama.Q5_1.golden.safetensors", "float32", kExact, kExact},
    Case{"golden-gguf/llama.F16.gguf", "golden-gguf/llama.F16.golden.safetensors", "auto", 0.3f, 0.03f, 0.1f},
    Case{"golden-gguf/llama.BF16.gguf", "golden-gguf/llama.BF16.golden.safetensors", "auto", 1.5f, 0.12f, 0.5f},
    Case{"golden-gguf/llama.Q8_0.gguf", "golden-gguf/llama.Q8_0.golden.safetensors", "auto", 1.0f, 0.1f, 0.3f},
    Case{"golden-gguf/llama.Q4_0.gguf", "golden-gguf/llama.Q4_0.golden.safetensors", "auto", 1.0f, 0.1f, 0.3f},
    Case{"golden-gguf/llama.Q4_1.gguf", "golden-gguf/llama.Q4_1.golden.safetensors", "auto", 1.0f, 0.1f, 0.3f},
    Case{"golden-gguf/llama.Q5_0.gguf", "golden-gguf/llama.Q5_0.golden.safetensors", "auto", 1.0f, 0.1f, 0.3f},
    Case{"golden-gguf/llama.Q5_1.gguf", "golden-gguf/llama.Q5_1.golden.safetensors", "auto", 1.0f, 0.1f, 0.3f}));

}  // namespace
}  // namespace quire
