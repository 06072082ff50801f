// Every model under tests/golden, from its Hugging Face folder and from its GGUF twin, against what
// transformers computes: all logits within the tolerance of float32 kernels, all greedy tokens
// equal. The folders themselves and status.json say what there is to test; no model is named here.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "golden_check.h"
#include "step_driver.h"
#include "weights/weight_source.h"

namespace quire {
namespace {
namespace fs = std::filesystem;
namespace json = boost::json;

constexpr float kExact = 5e-4f;      // largest error of a logit between float32 kernels
constexpr float kKnifeEdge = 1e-3f;  // a greedy token may differ below this margin only

struct Case {
  std::string model, golden;  // relative to the source tree
  GoldenOptions options;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.model; }

json::object read_json(const std::string& path) {
  std::ifstream file(source_path(path));
  if (!file) throw std::runtime_error("cannot read " + path);
  return json::parse(std::string(std::istreambuf_iterator<char>(file), {})).as_object();
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(source_path("tests/golden"))) {
    if (fs::exists(entry.path() / "golden.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Prompts whose past would have to be rotated again at every step: only their first token can be
// compared.
GoldenOptions options_of(const std::string& name) {
  GoldenOptions options;
  const json::object golden = read_json("tests/golden/" + name + "/golden.json");
  for (const json::value& prompt : golden.at("prompts").as_array()) {
    options.first_only.push_back(!prompt.as_object().at("greedy_exact_with_kv_cache").as_bool());
  }
  return options;
}

std::vector<Case> hugging_face_cases() {
  std::vector<Case> cases;
  for (const std::string& name : model_names()) {
    const std::string folder = "tests/golden/" + name;
    cases.push_back({folder, folder + "/golden.safetensors", options_of(name)});
  }
  return cases;
}

// The twins that exist, each with the golden file that llama.cpp's reading of it gives.
std::vector<Case> gguf_cases() {
  const json::object models = read_json("tests/golden-gguf/status.json").at("models").as_object();
  std::vector<Case> cases;
  for (const auto& [key, value] : models) {
    const std::string name(key);
    const std::string file = "tests/golden-gguf/" + name + ".gguf";
    if (!fs::exists(source_path(file))) continue;
    Case c{file, "tests/golden/" + name + "/golden.safetensors", options_of(name)};
    if (const json::value* variant = value.as_object().if_contains("variant")) {
      c.golden = "tests/golden-gguf/" + std::string(variant->as_object().at("file").as_string());
    }
    // A GGUF doesn't say dynamic NTK: prompts that it would change cannot be compared.
    const auto& late = c.options.first_only;
    c.options.prompts = static_cast<int>(std::find(late.begin(), late.end(), true) - late.begin());
    cases.push_back(c);
  }
  return cases;
}

std::vector<Case> quantized_cases() {
  std::vector<Case> cases;
  const json::object quantized = read_json("tests/golden-gguf/status.json").at("quantized").as_object();
  for (const auto& [key, value] : quantized) {
    const std::string stem = "tests/golden-gguf/" + std::string(key);
    cases.push_back({stem + ".gguf", stem + ".golden.safetensors", {}});
  }
  return cases;
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model.substr(info.param.model.find('/', 6) + 1);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

class AllGoldens : public ::testing::TestWithParam<Case> {};

TEST_P(AllGoldens, LogitsAndGreedyTokens) {
  const Case& c = GetParam();
  EngineFlags flags;
  const Result<ModelFiles> files = open_model(source_path(c.model));
  ASSERT_TRUE(files) << files.error().message;
  // Some files of tiny models name long contexts; the prompts are short.
  if (files->config.max_position > 256) flags.max_model_len = "256";
  const LoadedModel model = load_for_test(c.model, "float32", flags);
  const GoldenResult result = compare_with_golden(model, c.golden, c.options);
  std::printf("%s: worst %.2g, mean %.2g, top-1 logprob %.2g\n", c.model.c_str(),
              static_cast<double>(result.worst), result.mean,
              static_cast<double>(result.worst_top1));
  EXPECT_LE(result.worst, kExact);
  for (std::size_t p = 0; p < result.first_difference.size(); ++p) {
    EXPECT_TRUE(result.first_difference[p] < 0 || result.margins_at_difference[p] < kKnifeEdge)
        << "prompt " << p << ", token " << result.first_difference[p];
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, AllGoldens, ::testing::ValuesIn(hugging_face_cases()),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gguf, AllGoldens, ::testing::ValuesIn(gguf_cases()), test_name);
INSTANTIATE_TEST_SUITE_P(Quantized, AllGoldens, ::testing::ValuesIn(quantized_cases()), test_name);

}  // namespace
}  // namespace quire
