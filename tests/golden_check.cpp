#include "golden_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "base/source_path.h"
#include "step_driver.h"
#include "weights/safetensors_file.h"

namespace quire {
namespace {

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

// Errors of one position's logits; returns their sum.
double compare_row(const float* got, const float* want, std::size_t vocab, GoldenResult& result) {
  double sum = 0;
  float worst = 0;
  for (std::size_t v = 0; v < vocab; ++v) {
    const float error = std::fabs(got[v] - want[v]);
    worst = std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<float>::infinity();
    sum += error;
  }
  const auto best = static_cast<std::size_t>(std::max_element(want, want + vocab) - want);
  result.worst_top1 = std::max(result.worst_top1,
                               std::fabs(logprob(got, vocab, best) - logprob(want, vocab, best)));
  result.worst = std::max(result.worst, worst);
  result.position_worst.push_back(worst);
  if (*std::max_element(got, got + vocab) == got[best]) result.same_best += 1;
  return sum;
}

}  // namespace

GoldenResult compare_with_golden(const LoadedModel& model, const std::string& golden,
                                 const GoldenOptions& options) {
  const Result<SafetensorsFile> file = SafetensorsFile::open(source_path(golden));
  if (!file) throw std::runtime_error(file.error().message);
  GoldenResult result;
  double sum = 0;
  std::size_t count = 0;
  const auto vocab = static_cast<std::size_t>(model.config.vocab_size);
  for (std::size_t p = 0; p < static_cast<std::size_t>(options.prompts); ++p) {
    const std::string prefix = "prompt_" + std::to_string(p) + ".";
    const auto ids = read<std::int64_t>(*file, prefix + "input_ids");
    const auto logits = read<float>(*file, prefix + "logits");
    auto tokens = read<std::int64_t>(*file, prefix + "greedy_tokens");
    const auto margins = read<float>(*file, prefix + "greedy_margins");
    if (p < options.first_only.size() && options.first_only[p]) tokens.resize(1);
    const std::vector<TokenId> prompt(ids.begin(), ids.end());
    const PlainRun run = run_plain(*model.runner, prompt, static_cast<int>(tokens.size()));
    for (std::size_t position = 0; position < prompt.size(); ++position) {
      const std::vector<float>& row = run.logits.at(static_cast<std::int32_t>(position));
      sum += compare_row(row.data(), logits.data() + position * vocab, vocab, result);
      count += vocab;
    }
    result.first_difference.push_back(-1);
    result.margins_at_difference.push_back(0);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (margins[i] < options.stop_margin) break;
      if (run.tokens[i] == tokens[i]) continue;
      result.first_difference.back() = static_cast<int>(i);
      result.margins_at_difference.back() = margins[i];
      break;  // from here on it is another text
    }
  }
  result.same_best /= static_cast<double>(result.position_worst.size());
  result.mean = sum / static_cast<double>(count);
  return result;
}

std::vector<std::string> golden_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_path(folder))) {
    if (std::filesystem::exists(entry.path() / "golden.json"))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void expect_tokens(const GoldenResult& result, float margin) {
  for (std::size_t p = 0; p < result.first_difference.size(); ++p) {
    EXPECT_TRUE(result.first_difference[p] < 0 || result.margins_at_difference[p] < margin)
        << "prompt " << p << ", token " << result.first_difference[p] << ", margin "
        << result.margins_at_difference[p];
  }
}

}  // namespace quire
