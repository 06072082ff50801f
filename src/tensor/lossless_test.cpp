#include "tensor/lossless.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tensor/dequantize.h"

namespace quire {
namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(a[i] != a[i] && b[i] != b[i])) return false;
  }
  return a.size() == b.size();
}

std::vector<float> read(const TensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.shape.elements()));
  for (std::int64_t r = 0; r < view.rows(); ++r) {
    dequantize_row(view.dtype, view.row(r), view.columns(), values.data() + r * view.columns());
  }
  return values;
}

TEST(Lossless, EveryReadableTypeKeepsItsValues) {
  std::mt19937 random(7);
  for (int number = 0; number < kNumDTypes; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (!is_readable(dtype)) continue;
    SCOPED_TRACE(dtype_name(dtype));
    TensorView matrix{nullptr, dtype, Shape{3, 512}};
    std::vector<std::byte> bytes(static_cast<std::size_t>(matrix.bytes()));
    // Exponents away from infinity: the top bits of every byte pair that may be a scale are
    // cleared.
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0x3f);
    matrix.data = bytes.data();
    Buffer storage;
    const TensorView converted = as_lossless(matrix, &storage);
    EXPECT_EQ(converted.dtype, lossless_target(dtype));
    EXPECT_TRUE(is_dequantizable(converted.dtype));
    EXPECT_EQ(converted.shape, matrix.shape);
    EXPECT_TRUE(same_bits(read(converted), read(matrix)));
    if (is_dequantizable(dtype)) {
      EXPECT_EQ(converted.data, matrix.data) << "no copy";
    }
  }
}

TEST(Lossless, CompactWhereItCanBe) {
  EXPECT_EQ(lossless_target(DType::kQ3_K), DType::kQ3_K);
  EXPECT_EQ(lossless_target(DType::kIQ3_S), DType::kQ6_K);
  EXPECT_EQ(lossless_target(DType::kIQ4_NL), DType::kIQ4_NL);
  EXPECT_EQ(lossless_target(DType::kTQ1_0), DType::kQ4_0);
  EXPECT_EQ(lossless_target(DType::kNVFP4), DType::kBF16);
  EXPECT_EQ(lossless_target(DType::kIQ2_S), DType::kF32);
}

TEST(Lossless, EightBitFloats) {
  const std::uint8_t e4m3[8] = {0x00, 0x01, 0x08, 0x38, 0x7e, 0x7f, 0xb8, 0x80};
  const std::uint8_t e5m2[8] = {0x00, 0x01, 0x04, 0x3c, 0x7b, 0x7c, 0xbc, 0x80};
  float values[8];
  dequantize_row(DType::kF8E4M3, reinterpret_cast<const std::byte*>(e4m3), 8, values);
  EXPECT_EQ(values[1], 0x1p-9f);
  EXPECT_EQ(values[2], 0x1p-6f);
  EXPECT_EQ(values[3], 1.0f);
  EXPECT_EQ(values[4], 448.0f);
  EXPECT_NE(values[5], values[5]) << "NaN";
  EXPECT_EQ(values[6], -1.0f);
  dequantize_row(DType::kF8E5M2, reinterpret_cast<const std::byte*>(e5m2), 8, values);
  EXPECT_EQ(values[1], 0x1p-16f);
  EXPECT_EQ(values[3], 1.0f);
  EXPECT_EQ(values[4], 57344.0f);
  EXPECT_EQ(values[5], std::numeric_limits<float>::infinity());
  EXPECT_EQ(values[6], -1.0f);
}

}  // namespace
}  // namespace quire
