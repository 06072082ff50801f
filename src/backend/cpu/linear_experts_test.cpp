// Rows grouped by expert get the bits of each expert's own product, whatever the types of the
// experts' matrices, the number of threads, and how many rows each one has.
#include <gtest/gtest.h>

#include "backend/cpu/testing.h"
#include "tensor/half.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::random_floats;
using testing_support::same_bits;

constexpr std::int64_t kInputs = 72, kOutputs = 200;  // neither fills its last group or panel

// A matrix of plain numbers.
std::unique_ptr<Linear> pack(CpuBackend& backend, DType dtype, unsigned seed) {
  const auto values = random_floats(kOutputs * kInputs, seed, 0.1f);
  const auto bias = random_floats(kOutputs, seed + 100);
  std::vector<std::uint16_t> halves;
  for (const float v : values) halves.push_back(f32_to_bf16(v));
  const auto* bytes = dtype == DType::kF32 ? reinterpret_cast<const std::byte*>(values.data())
                                           : reinterpret_cast<const std::byte*>(halves.data());
  const TensorView view{bytes, dtype, Shape{kOutputs, kInputs}};
  const TensorView bias_view{reinterpret_cast<const std::byte*>(bias.data()), DType::kF32,
                             Shape{kOutputs}};
  auto linear = backend.pack_linear(std::span(&view, 1), std::span(&bias_view, 1));
  EXPECT_TRUE(linear.has_value());
  return std::move(*linear);
}

void expect_bits_of_each_product(ComputeDType compute, const std::vector<DType>& dtypes,
                                 const std::vector<std::int32_t>& begin, int threads) {
  const auto backend = make_backend(*available_kernels().back(), threads, compute);
  std::vector<std::unique_ptr<Linear>> owned;
  std::vector<const Linear*> experts;
  for (std::size_t e = 0; e + 1 < begin.size(); ++e) {
    owned.push_back(pack(*backend, dtypes[e % dtypes.size()], static_cast<unsigned>(e)));
    experts.push_back(owned.back().get());
  }
  const std::int64_t rows = begin.back();
  const auto x = random_floats(rows * kInputs, 7);
  std::vector<float> expected(static_cast<std::size_t>(rows * kOutputs));
  for (std::size_t e = 0; e < experts.size(); ++e)
    backend->linear(x.data() + begin[e] * kInputs, begin[e + 1] - begin[e], *experts[e],
                    expected.data() + begin[e] * kOutputs, Epilogue::kStore, 0);
  std::vector<float> got(expected.size(), NAN);
  backend->linear_experts(x.data(), begin, experts, got.data());
  EXPECT_TRUE(same_bits(got, expected)) << threads << " threads, " << dtypes.size() << " types";
}

TEST(LinearExperts, GiveTheBitsOfEachProduct) {
  for (const int threads : {1, 3}) {
    for (const ComputeDType compute : {ComputeDType::kAuto, ComputeDType::kFloat32}) {
      for (const auto& dtypes :
           {std::vector{DType::kBF16}, {DType::kF32}, {DType::kBF16, DType::kBF16, DType::kF32}}) {
        expect_bits_of_each_product(compute, dtypes, {0, 0, 3, 4, 4, 13, 213, 213}, threads);
        expect_bits_of_each_product(compute, dtypes, {0, 1}, threads);
        expect_bits_of_each_product(compute, dtypes, {0, 0, 0}, threads);
      }
    }
  }
}

}  // namespace
}  // namespace quire
