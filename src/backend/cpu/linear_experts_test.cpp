// Rows grouped by expert get the bits of each expert's own product, whatever the types of the
// experts' matrices, the number of threads, and how many rows each one has.
#include <gtest/gtest.h>

#include "backend/cpu/testing.h"
#include "base/sanitized.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::Matrix;
using testing_support::random_floats;
using testing_support::random_matrix;
using testing_support::same_bits;

struct ExpertShape {
  std::int64_t inputs, outputs;
};
constexpr ExpertShape kPlain = {72, 200};  // neither fills its last group or panel
constexpr ExpertShape kBlocks = {256, 70};

using Begins = std::vector<std::int32_t>;

void expect_bits_of_each_product(const KernelTable& table, ComputeDType compute,
                                 const ExpertShape& shape, const std::vector<DType>& dtypes,
                                 const Begins& begin, int threads) {
  const auto backend = make_backend(table, threads, compute);
  std::vector<std::unique_ptr<Linear>> owned;
  std::vector<const Linear*> experts;
  for (std::size_t e = 0; e + 1 < begin.size(); ++e) {
    const auto seed = static_cast<unsigned>(e);
    const Matrix m = random_matrix(dtypes[e % dtypes.size()], shape.outputs, shape.inputs, seed);
    const auto bias = random_floats(shape.outputs, seed + 100);
    const TensorView bias_view{reinterpret_cast<const std::byte*>(bias.data()), DType::kF32,
                               Shape{shape.outputs}};
    auto linear = backend->pack_linear({&m.view, 1}, {&bias_view, 1});
    ASSERT_TRUE(linear) << linear.error().message;
    owned.push_back(std::move(*linear));
    experts.push_back(owned.back().get());
  }
  const std::int64_t rows = begin.back();
  const auto x = random_floats(rows * shape.inputs, 7);
  std::vector<float> expected(static_cast<std::size_t>(rows * shape.outputs));
  for (std::size_t e = 0; e < experts.size(); ++e)
    backend->linear(x.data() + begin[e] * shape.inputs, begin[e + 1] - begin[e], *experts[e],
                    expected.data() + begin[e] * shape.outputs, Epilogue::kStore, 0);
  for (const float v : expected) ASSERT_TRUE(std::isfinite(v));
  std::vector<float> got(expected.size(), NAN);
  backend->linear_experts(x.data(), begin, experts, got.data());
  EXPECT_TRUE(same_bits(got, expected))
      << table.name << ", " << threads << " threads, " << dtype_name(dtypes[0]) << " and "
      << dtypes.size() - 1 << " others";
}

TEST(LinearExperts, GiveTheBitsOfEachProduct) {
  for (const KernelTable* table : available_kernels()) {
    // The scalar reference is slow over many rows.
    const bool last = table == available_kernels().back();
    const bool few = table == available_kernels().front() || (kSanitized && !last);
    const std::int32_t many = few ? 30 : 213;
    for (const int threads : {1, 3}) {
      for (const ComputeDType compute : {ComputeDType::kAuto, ComputeDType::kFloat32}) {
        for (const auto& dtypes : {std::vector{DType::kBF16},
                                   {DType::kF32},
                                   {DType::kBF16, DType::kBF16, DType::kF32}}) {
          for (const Begins& begin :
               {Begins{0, 0, 3, 4, 4, 13, many, many}, Begins{0, 1}, Begins{0, 0, 0}})
            expect_bits_of_each_product(*table, compute, kPlain, dtypes, begin, threads);
        }
      }
    }
  }
}

TEST(LinearExperts, OfQuantizedKindsToo) {
  for (const KernelTable* table : available_kernels()) {
    for (const int threads : {1, 3}) {
      for (const ComputeDType compute : {ComputeDType::kAuto, ComputeDType::kFloat32}) {
        for (const auto& dtypes : {std::vector{DType::kQ4_K},
                                   {DType::kQ8_0},
                                   {DType::kMXFP4},
                                   {DType::kG4_128},
                                   {DType::kQ4_K, DType::kQ6_K, DType::kBF16}})
          expect_bits_of_each_product(*table, compute, kBlocks, dtypes, {0, 2, 2, 3, 20}, threads);
      }
    }
  }
}

}  // namespace
}  // namespace quire
