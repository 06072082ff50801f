// Every model under tests/golden, from its Hugging Face folder and from its GGUF twin, against what
// transformers computes: in float32 all logits within the tolerance of other float32 kernels and
// all greedy tokens equal, in half precision within the tolerances of tests/golden/README.md. The
// folders themselves and status.json say what there is to test; no model is named here.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cctype>
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

constexpr float kHalfMargin = 0.3f;  // half precision: compared up to the first margin below this

struct GoldenCase {
  std::string model, golden;  // relative to the source tree
  GoldenOptions options;
  bool experts = false;  // half precision may choose others
};
std::ostream& operator<<(std::ostream& out, const GoldenCase& c) { return out << c.model; }

json::object read_json(const std::string& path) {
  std::ifstream file(source_path(path));
  if (!file) throw std::runtime_error("cannot read " + path);
  return json::parse(std::string(std::istreambuf_iterator<char>(file), {})).as_object();
}

GoldenCase case_of(const std::string& name, std::string model) {
  const std::string folder = "tests/golden/" + name;
  GoldenCase c{std::move(model), folder + "/golden.safetensors", {}, false};
  const json::object golden = read_json(folder + "/golden.json");
  // Prompts whose past would have to be rotated again at every step: only their first token can be
  // compared.
  for (const json::value& prompt : golden.at("prompts").as_array()) {
    c.options.first_only.push_back(!prompt.as_object().at("greedy_exact_with_kv_cache").as_bool());
  }
  for (const json::value& feature : golden.at("features").as_array()) {
    c.experts |= std::string_view(feature.as_string()).starts_with("moe ");
  }
  return c;
}

std::vector<GoldenCase> hugging_face_cases() {
  std::vector<GoldenCase> cases;
  for (const std::string& name : golden_names("tests/golden"))
    cases.push_back(case_of(name, "tests/golden/" + name));
  return cases;
}

// The twins that exist, each with the golden file that llama.cpp's reading of it gives.
std::vector<GoldenCase> gguf_cases() {
  const json::object models = read_json("tests/golden-gguf/status.json").at("models").as_object();
  std::vector<GoldenCase> cases;
  for (const auto& [key, value] : models) {
    const std::string name(key);
    const std::string file = "tests/golden-gguf/" + name + ".gguf";
    if (!fs::exists(source_path(file))) continue;
    GoldenCase c = case_of(name, file);
    if (const json::value* variant = value.as_object().if_contains("variant")) {
      c.golden = "tests/golden-gguf/" + std::string(variant->as_object().at("file").as_string());
    }
    // A GGUF doesn't say dynamic NTK: prompts that it would change cannot be compared.
    const auto& late = c.options.first_only;
    c.options.prompts = static_cast<int>(std::find(late.begin(), late.end(), true) - late.begin());
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<GoldenCase> quantized_cases() {
  const json::object models =
      read_json("tests/golden-gguf/status.json").at("quantized").as_object();
  std::vector<GoldenCase> cases;
  for (const auto& [key, value] : models) {
    const std::string stem = "tests/golden-gguf/" + std::string(key);
    cases.push_back({stem + ".gguf", stem + ".golden.safetensors", {}, false});
  }
  return cases;
}

std::string test_name(const ::testing::TestParamInfo<GoldenCase>& info) {
  std::string name = fs::path(info.param.model).filename().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

GoldenResult run(const GoldenCase& c, const std::string& dtype, float stop_margin = 0) {
  EngineFlags flags;
  const Result<ModelFiles> files = open_model(source_path(c.model));
  if (!files) throw std::runtime_error(files.error().message);
  // Some files of tiny models name long contexts; the prompts are short.
  if (files->config.max_position > 256) flags.max_model_len = "256";
  const LoadedModel model = load_for_test(c.model, dtype, flags);
  EXPECT_TRUE(model.weights->unused_names().empty())
      << "left over: " << model.weights->unused_names().front();
  GoldenOptions options = c.options;
  options.stop_margin = stop_margin;
  GoldenResult result = compare_with_golden(model, c.golden, options);
  std::printf("%s %s: worst %.2g, mean %.2g, top-1 logprob %.2g, same best %.3g\n", c.model.c_str(),
              dtype.c_str(), static_cast<double>(result.worst), result.mean,
              static_cast<double>(result.worst_top1), result.same_best);
  return result;
}

// Greedy tokens are the golden ones, but for the first whose margin is below this and what follows
// it.
double share_within(const GoldenResult& result, float bound) {
  const auto within = std::count_if(result.position_worst.begin(), result.position_worst.end(),
                                    [&](float error) { return error <= bound; });
  return static_cast<double>(within) / static_cast<double>(result.position_worst.size());
}

class AllGoldens : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(AllGoldens, Float32) {
  const GoldenResult result = run(GetParam(), "float32");
  EXPECT_LE(result.worst, kExact);
  expect_tokens(result, kKnifeEdge);
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, AllGoldens, ::testing::ValuesIn(hugging_face_cases()),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Gguf, AllGoldens, ::testing::ValuesIn(gguf_cases()), test_name);
INSTANTIATE_TEST_SUITE_P(Quantized, AllGoldens, ::testing::ValuesIn(quantized_cases()), test_name);

class HalfPrecision : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(HalfPrecision, BFloat16) {
  const GoldenCase& c = GetParam();
  const GoldenResult result = run(c, "bfloat16", kHalfMargin);
  if (c.experts) {
    EXPECT_LT(result.mean, 0.4);
    EXPECT_GE(share_within(result, 0.6f), 0.5);
    EXPECT_GE(result.same_best, 0.8);
  } else {
    EXPECT_LE(result.worst, 1.5f);
    EXPECT_LT(result.mean, 0.12);
    expect_tokens(result, kHalfMargin);
  }
}

TEST_P(HalfPrecision, Float16) {
  const GoldenCase& c = GetParam();
  const GoldenResult result = run(c, "float16", kHalfMargin);
  if (c.experts) {
    // A flip in the routing moves all later positions: one model has 77 %, its errors those of
    // transformers' own float16.
    EXPECT_GE(share_within(result, 0.3f), 0.75);
  } else {
    EXPECT_LE(result.worst, 0.3f);
    expect_tokens(result, kHalfMargin);
  }
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, HalfPrecision, ::testing::ValuesIn(hugging_face_cases()),
                         test_name);

}  // namespace
}  // namespace quire
