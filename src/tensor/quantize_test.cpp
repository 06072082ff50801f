#include "tensor/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tensor/dequantize.h"

namespace quire {
namespace {

std::vector<float> round_trip(DType dtype, const std::vector<float>& x) {
  const auto columns = static_cast<std::int64_t>(x.size());
  std::vector<std::byte> blocks(static_cast<std::size_t>(row_bytes(dtype, columns)));
  quantize_row(dtype, x.data(), columns, blocks.data());
  std::vector<float> y(x.size());
  dequantize_row(dtype, blocks.data(), columns, y.data());
  return y;
}

TEST(QuantizeRow, ErrorIsHalfAStepOfTheGroup) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(32 * 64);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = normal(random) * std::exp2(static_cast<float>(i / 32 % 7) - 3);
  const std::vector<float> eight = round_trip(DType::kQ8_0, x), four = round_trip(DType::kQ4_0, x);
  for (std::size_t g = 0; g < x.size(); g += 32) {
    float top = 0;
    for (std::size_t i = g; i < g + 32; ++i) top = std::max(top, std::fabs(x[i]));
    double eight_error = 0, four_error = 0;
    for (std::size_t i = g; i < g + 32; ++i) {
      EXPECT_LE(std::fabs(eight[i] - x[i]), top / 127 * 0.51f);
      EXPECT_LE(std::fabs(four[i] - x[i]), top * 0.33f) << "a scale of 0.8 cuts the largest";
      eight_error += std::pow(eight[i] - x[i], 2);
      four_error += std::pow(four[i] - x[i], 2);
    }
    EXPECT_LT(four_error / 32, std::pow(top / 8, 2) / 12 * 1.5) << "of a uniform error";
    EXPECT_LT(eight_error, four_error);
  }
}

TEST(QuantizeRow, ZerosAndASingleNumber) {
  std::vector<float> x(32);
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0}) EXPECT_EQ(round_trip(dtype, x), x);
  x[5] = -4.0f;
  EXPECT_EQ(round_trip(DType::kQ4_0, x), x);
  x[5] = 4.0f;
  EXPECT_EQ(round_trip(DType::kQ4_0, x), x);
}

}  // namespace
}  // namespace quire
