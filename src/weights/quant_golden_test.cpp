// Every quantized weight of tests/golden-quant against dequantized.json: shape, first and last
// values bit for bit, and sums in double precision that a value in a wrong place would change.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/source_path.h"
#include "weights/checked.h"
#include "weights/safetensors_file.h"
#include "weights/test_files.h"
#include "weights/weight_source.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

fs::path golden_folder() { return source_path("tests/golden-quant"); }

std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    if (fs::exists(entry.path() / "dequantized.json"))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<float> values_of(const TensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.shape.elements()));
  for (std::int64_t r = 0; r < view.rows(); ++r)
    dequantize_row(view, r, values.data() + r * view.columns());
  return values;
}

// [experts, out, in] as [experts, in, out], as the plain checkpoint has it.
std::vector<float> transposed(const std::vector<float>& values, const Shape& shape) {
  std::vector<float> out;
  for (std::int64_t e = 0; e < shape[0]; ++e)
    for (std::int64_t i = 0; i < shape[2]; ++i)
      for (std::int64_t o = 0; o < shape[1]; ++o)
        out.push_back(values[static_cast<std::size_t>((e * shape[1] + o) * shape[2] + i)]);
  return out;
}

void expect_sum(double got, const json::object& want, const char* key) {
  const double wanted = want.at(key).to_number<double>();
  const double scale = want.at("sum_abs").to_number<double>() * 251;
  EXPECT_NEAR(got, wanted, 1e-12 * scale) << key;
}

void expect_weights(const std::vector<float>& values, const json::object& want) {
  const auto &first = want.at("first").as_array(), &last = want.at("last").as_array();
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(values[i], static_cast<float>(first[i].to_number<double>())) << "element " << i;
    EXPECT_EQ(values[values.size() - last.size() + i],
              static_cast<float>(last[i].to_number<double>()))
        << "element " << i << " of the last";
  }
  double sum = 0, magnitudes = 0, weighted = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    sum += value;
    magnitudes += std::fabs(value);
    weighted += value * static_cast<double>(i % 251);
  }
  expect_sum(sum, want, "sum");
  expect_sum(magnitudes, want, "sum_abs");
  expect_sum(weighted, want, "sum_times_index_mod_251");
}

class QuantGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantGolden, EveryWeightIsTheDequantizedOne) {
  const fs::path folder = golden_folder() / GetParam();
  const Result<ModelFiles> files = open_model(folder.string());
  ASSERT_TRUE(files) << files.error().message;
  const Result<std::string> text = read_text_file((folder / "dequantized.json").string(), 1 << 20);
  ASSERT_TRUE(text);
  const json::object weights = json::parse(*text).as_object();
  EXPECT_FALSE(weights.empty());
  for (const auto& entry : weights) {
    const std::string name(entry.key());
    SCOPED_TRACE(name);
    const Shape shape = files->weights->find(name).shape;
    const Result<TensorView> view = files->weights->require(name, shape);
    ASSERT_TRUE(view) << view.error().message;
    std::vector<float> values = values_of(*view);
    if (shape.rank() == 3) values = transposed(values, shape);
    expect_weights(values, entry.value().as_object());
    files->weights->release_pages(*view);
  }
  // Nothing of the format's own names is left.
  for (const std::string& name : files->weights->names()) {
    for (const char* part : {"qweight", "qzeros", "scale", "g_idx", "_packed", "_blocks",
                             "zero_point", "weight_shape"})
      EXPECT_EQ(name.find(part), std::string::npos) << name;
  }
}

// What the products read is as large as what the file has, within 1.03; FP8, whose scales are
// repeated, within 1.04.
TEST_P(QuantGolden, ConvertedSizeIsThatOfTheFile) {
  const std::string folder = (golden_folder() / GetParam()).string();
  const Result<SafetensorsFile> file = SafetensorsFile::open_folder(folder);
  ASSERT_TRUE(file) << file.error().message;
  const Result<ModelFiles> files = open_model(folder);
  ASSERT_TRUE(files) << files.error().message;
  const auto is_layer = [](std::string_view name) {
    return name.find("_proj") != std::string_view::npos && !name.ends_with("bias");
  };
  std::int64_t stored = 0, converted = 0;
  for (const auto& [name, view] : file->tensors()) stored += is_layer(name) ? view.bytes() : 0;
  for (const std::string& name : files->weights->names())
    converted += is_layer(name) ? files->weights->find(name).bytes() : 0;
  const QuantConfig& config = files->config.quantization;
  if (GetParam().ends_with("_cut")) return;  // blocks of 32 stand for what is left of 128
  EXPECT_LE(static_cast<double>(converted),
            (config.scheme.floating ? 1.04 : 1.03) * static_cast<double>(stored));
}

INSTANTIATE_TEST_SUITE_P(Folders, QuantGolden, ::testing::ValuesIn(folders()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace quire
