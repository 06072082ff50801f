// Decoding of every block type against tests/golden-gguf/kquant_blocks.safetensors, to the bit.
#include <cstring>
#include <vector>

#include "base/source_path.h"
#include "tensor/lossless.h"
#include "weights/safetensors_file.h"
#include "weights/test_files.h"
#include "weights/weight_source.h"

namespace quire {
namespace {

class Dequantize : public ::testing::TestWithParam<DType> {};

TEST_P(Dequantize, EqualsTheGoldenValues) {
  const auto file =
      SafetensorsFile::open(source_path("tests/golden-gguf/kquant_blocks.safetensors"));
  ASSERT_TRUE(file) << file.error().message;
  const DType dtype = GetParam();
  ASSERT_TRUE(can_dequantize(dtype));
  const std::string name(dtype_name(dtype));
  const TensorView bytes = file->tensors().at(name + ".bytes");
  const TensorView values = file->tensors().at(name + ".values");
  // The same bytes seen as a matrix of this type, one row per vector.
  const TensorView matrix{bytes.data, dtype, values.shape};
  ASSERT_EQ(matrix.bytes(), bytes.bytes());
  std::vector<float> row(static_cast<std::size_t>(values.columns()));
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    dequantize_row(matrix, r, row.data());
    EXPECT_EQ(std::memcmp(row.data(), values.row(r), row.size() * sizeof(float)), 0)
        << name << " row " << r;
  }
  // As the type that it is converted to at load: the same values.
  Buffer storage;
  const TensorView converted = as_lossless(matrix, &storage);
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    dequantize_row(converted, r, row.data());
    for (std::int64_t i = 0; i < matrix.columns(); ++i) {
      float wanted = 0;
      std::memcpy(&wanted, values.row(r) + i * 4, sizeof(wanted));
      ASSERT_EQ(row[static_cast<std::size_t>(i)], wanted) << dtype_name(converted.dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Dequantize,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0,
                                           DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                           DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K,
                                           DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS,
                                           DType::kMXFP4, DType::kNVFP4, DType::kTQ1_0,
                                           DType::kTQ2_0, DType::kIQ1_S, DType::kIQ1_M,
                                           DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S,
                                           DType::kIQ3_XXS, DType::kIQ3_S),
                         [](const auto& each) { return std::string(dtype_name(each.param)); });

TEST(DequantizeMatrix, F64AndRefusals) {
  const double values[] = {0.5, -3.0};
  float row[2] = {};
  dequantize_row({reinterpret_cast<const std::byte*>(values), DType::kF64, Shape{1, 2}}, 0, row);
  EXPECT_EQ(row[0], 0.5f);
  EXPECT_EQ(row[1], -3.0f);
  EXPECT_FALSE(can_dequantize(DType::kI32));
  EXPECT_FALSE(can_dequantize(DType::kU8));
}

}  // namespace
}  // namespace quire
