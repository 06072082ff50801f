// Matrices of quantized types, multiplied as they are or converted at load: nothing is lost in f32.
#include "model/layers/weight_loader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "model/layers/memory_weights.h"
#include "tensor/dequantize.h"

namespace quire {
namespace {

constexpr std::int64_t kOutputs = 5, kInputs = 256;

std::vector<float> product(Backend& backend, DType dtype, const void* data, const float* x) {
  testing_support::MemoryWeights weights;
  weights.borrow("w.weight", dtype, Shape{kOutputs, kInputs}, data);
  WeightLoader loader(weights, backend);
  const auto linear =
      loader.linear({{.name = "w", .rows = kOutputs, .transposed = false, .order = {}}}, kInputs);
  EXPECT_TRUE(linear) << linear.error().message;
  std::vector<float> y(kOutputs);
  if (linear) backend.linear(x, 1, **linear, y.data(), Epilogue::kStore);
  return y;
}

class QuantizedMatrix : public ::testing::TestWithParam<DType> {};

TEST_P(QuantizedMatrix, GivesTheProductOfItsExactValues) {
  const DType dtype = GetParam();
  // Small bytes make small, finite scales in every block layout.
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(kOutputs * row_bytes(dtype, kInputs)));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 % 60);
  std::vector<float> exact(kOutputs * kInputs), x(kInputs);
  for (std::int64_t r = 0; r < kOutputs; ++r)
    dequantize_row(dtype,
                   reinterpret_cast<const std::byte*>(bytes.data()) + r * row_bytes(dtype, kInputs),
                   kInputs, exact.data() + r * kInputs);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i % 13) - 6) * 0.25f;
  CpuBackendOptions options;
  options.threads = 1;
  options.dtype = ComputeDType::kFloat32;
  const auto backend = make_cpu_backend(options);
  ASSERT_TRUE(backend);
  (*backend)->reserve(1, kInputs);
  EXPECT_EQ(product(**backend, dtype, bytes.data(), x.data()),
            product(**backend, DType::kF32, exact.data(), x.data()));
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedMatrix,
                         ::testing::Values(DType::kQ2_K, DType::kQ3_K, DType::kIQ4_NL,
                                           DType::kIQ4_XS, DType::kMXFP4, DType::kNVFP4,
                                           DType::kTQ1_0, DType::kTQ2_0, DType::kF8E4M3,
                                           DType::kQ6_K, DType::kIQ2_S, DType::kIQ3_S),
                         [](const auto& param_info) {
                           return std::string(dtype_name(param_info.param));
                         });

}  // namespace
}  // namespace quire
