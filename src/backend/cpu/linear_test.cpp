// Matrix products: stacked matrices of mixed types against plain sums, and bits that do not depend
// on company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/testing.h"
#include "tensor/dequantize.h"
#include "tensor/half.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::Matrix;
using testing_support::random_floats;
using testing_support::random_matrix;
using testing_support::same_bits;

// y = x W^T + bias in double.
std::vector<double> exact(const std::vector<float>& x, std::int64_t rows,
                          std::span<const TensorView> weights, const std::vector<float>& bias) {
  std::vector<double> y;
  const std::int64_t k = weights[0].columns();
  std::vector<float> w(static_cast<std::size_t>(k)), stored(w);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::size_t output = 0;
    for (const TensorView& view : weights) {
      for (std::int64_t o = 0; o < view.rows(); ++o) {
        dequantize_row(view.dtype, view.row(o), k, stored.data());
        for (std::size_t c = 0; c < stored.size(); ++c)
          w[view.column_order == nullptr ? c : static_cast<std::size_t>(view.column_order[c])] =
              stored[c];
        double sum = bias[output++];
        for (std::int64_t i = 0; i < k; ++i) {
          sum += static_cast<double>(x[static_cast<std::size_t>(r * k + i)]) *
                 w[static_cast<std::size_t>(i)];
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

TEST(Linear, StackedMatricesOfMixedTypesUnderFloat32) {
  constexpr std::int64_t kK = 512, kRows = 5;
  const Matrix a = random_matrix(DType::kQ4_K, 70, kK, 1),
               b = random_matrix(DType::kF16, 16, kK, 2),
               c = random_matrix(DType::kQ8_0, 33, kK, 3),
               d = random_matrix(DType::kQ6_K, 3, kK, 4);
  const TensorView weights[] = {a.view, b.view, c.view, d.view};
  const auto bias = random_floats(70 + 16 + 33 + 3, 5);
  const auto bias_view = [&](std::int64_t at, std::int64_t n) {
    return TensorView{reinterpret_cast<const std::byte*>(bias.data() + at), DType::kF32, Shape{n}};
  };
  const TensorView biases[] = {bias_view(0, 70), bias_view(70, 16), bias_view(86, 33),
                               bias_view(119, 3)};
  const auto x = random_floats(kRows * kK, 6);
  const auto expected = exact(x, kRows, weights, bias);
  for (const KernelTable* table : available_kernels()) {
    const auto backend = make_backend(*table, 2, ComputeDType::kFloat32);
    const auto linear = backend->pack_linear(weights, biases);
    ASSERT_TRUE(linear.has_value()) << linear.error().message;
    EXPECT_EQ((*linear)->outputs, 122);
    std::vector<float> y(expected.size());
    backend->linear(x.data(), kRows, **linear, y.data(), Epilogue::kStore, 0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i], 1e-4 * (1 + std::abs(expected[i])))
          << table->name << " output " << i % 122;
    }
    // Added to what is there, into rows that are further apart.
    std::vector<float> wide(static_cast<std::size_t>(kRows * 130), 1.0f);
    backend->linear(x.data(), kRows, **linear, wide.data(), Epilogue::kAdd, 130);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t o = 0; o < 122; ++o) EXPECT_EQ(wide[r * 130 + o], 1.0f + y[r * 122 + o]);
      for (std::size_t o = 122; o < 130; ++o) EXPECT_EQ(wide[r * 130 + o], 1.0f);
    }
  }
}

TEST(Linear, BitsOfARowDoNotDependOnCompanyOrThreads) {
  constexpr std::int64_t kK = 256, kRows = 200, kN = 150;
  const auto x = random_floats(kRows * kK, 7);
  for (const KernelTable* table : available_kernels()) {
    for (const DType dtype :
         {DType::kF32, DType::kBF16, DType::kF16, DType::kQ4_1, DType::kQ5_0, DType::kQ2_K,
          DType::kQ5_K, DType::kIQ4_XS, DType::kG4_128, DType::kG8_64}) {
      for (const ComputeDType compute : {ComputeDType::kAuto, ComputeDType::kFloat32}) {
        const Matrix m = random_matrix(dtype, kN, kK, 8),
                     m2 = random_matrix(DType::kQ8_0, 40, kK, 9);
        const TensorView weights[] = {m.view, m2.view};
        std::vector<float> alone;
        for (const int threads : {1, 2, 3}) {
          const auto backend = make_backend(*table, threads, compute);
          const auto linear = backend->pack_linear(weights, {});
          ASSERT_TRUE(linear.has_value()) << linear.error().message;
          std::vector<float> y(kRows * (kN + 40));
          backend->linear(x.data(), kRows, **linear, y.data(), Epilogue::kStore, 0);
          if (alone.empty()) {
            alone.resize(y.size());
            for (std::int64_t r = 0; r < kRows; r += 23) {
              backend->linear(x.data() + r * kK, 1, **linear, alone.data() + r * (kN + 40),
                              Epilogue::kStore, 0);
            }
          }
          for (std::size_t r = 0; r < kRows; r += 23) {
            const auto row = [&](const std::vector<float>& v) {
              const auto begin = v.begin() + static_cast<std::ptrdiff_t>(r * (kN + 40));
              return std::vector<float>(begin, begin + kN + 40);
            };
            ASSERT_TRUE(same_bits(row(y), row(alone))) << table->name << " " << dtype_name(dtype)
                                                       << " threads " << threads << " row " << r;
          }
        }
      }
    }
  }
}

// An activation inside the product gives the bits of one that ran before it: for every form that
// rows are multiplied in, ordered columns, few rows and many.
TEST(Linear, ActivatedInsideEqualsActivatedBefore) {
  constexpr std::int64_t kK = 256, kRows = 70, kN = 90;
  const auto raw = random_floats(kRows * 2 * kK, 31);
  std::vector<std::int32_t> order(kK);
  for (std::int32_t i = 0; i < kK; ++i) order[static_cast<std::size_t>(i)] = (i * 37 + 5) % kK;
  ActivationArgs relu;
  relu.kind = ActivationKind::kRelu2;
  relu.gated = false;
  for (const KernelTable* table : available_kernels()) {
    for (const ComputeDType compute : {ComputeDType::kAuto, ComputeDType::kFloat32}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ5_0, DType::kQ6_K}) {
        Matrix first = random_matrix(dtype, kN / 2, kK, 33),
               second = random_matrix(DType::kQ8_0, kN / 2, kK, 34);
        for (const bool ordered : {false, true}) {
          first.view.column_order = second.view.column_order = ordered ? order.data() : nullptr;
          const TensorView weights[] = {first.view, second.view};
          for (const int threads : {1, 3}) {
            const auto backend = make_backend(*table, threads, compute);
            const auto linear = backend->pack_linear(weights, {});
            ASSERT_TRUE(linear.has_value()) << linear.error().message;
            for (const ActivationArgs& args : {ActivationArgs{}, relu}) {
              for (const std::int64_t rows : {std::int64_t{1}, kRows}) {
                std::vector<float> active(kRows * kK), scratch(kRows * kK),
                    before(kRows * kN, 1.0f);
                std::vector<float> inside = before;
                backend->activate(args, raw.data(), rows, kK, active.data());
                backend->linear(active.data(), rows, **linear, before.data(), Epilogue::kAdd, 0);
                backend->linear_activated(args, raw.data(), rows, **linear, scratch.data(),
                                          inside.data(), Epilogue::kAdd);
                ASSERT_TRUE(same_bits(inside, before))
                    << table->name << " " << dtype_name(dtype) << " ordered " << ordered
                    << " threads " << threads << " rows " << rows;
              }
            }
          }
        }
      }
    }
  }
}

// A layer in one operation gives the bits of its operations one by one, also where K and the panels
// end in the middle, for mixed kinds of weights.
TEST(Linear, AFeedForwardLayerEqualsItsOperations) {
  constexpr std::int64_t kHidden = 288, kRows = 600;  // more than a block of rows
  ActivationArgs gelu;
  gelu.kind = ActivationKind::kGeluTanh;
  for (const KernelTable* table : available_kernels()) {
    const bool fused = table->mm.integers_as_bf16;  // others do the operations one by one
    for (const std::int64_t n : {std::int64_t{96}, std::int64_t{800}}) {
      if (!fused && (n > 96 || std::string(table->name) == "ref")) continue;
      const Matrix gate = random_matrix(DType::kQ5_0, n, kHidden, 41);
      const Matrix up = random_matrix(DType::kQ8_0, n, kHidden, 42);
      const Matrix plain = random_matrix(DType::kBF16, n, kHidden, 43);
      const Matrix down = random_matrix(DType::kQ4_1, 70, n, 44);
      const auto x = random_floats(kRows * kHidden, 45), bias = random_floats(2 * n, 46);
      const TensorView biases[] = {
          {reinterpret_cast<const std::byte*>(bias.data()), DType::kF32, Shape{n}},
          {reinterpret_cast<const std::byte*>(bias.data() + n), DType::kF32, Shape{n}}};
      for (const int threads : {1, 3}) {
        const auto backend = make_backend(*table, threads, ComputeDType::kAuto);
        const TensorView mixed[] = {gate.view, up.view}, same[] = {plain.view, plain.view};
        for (const auto& stack : {std::span(mixed), std::span(same)}) {
          const auto first = backend->pack_linear(stack, biases);
          const auto second = backend->pack_linear({&down.view, 1}, {});
          ASSERT_TRUE(first.has_value() && second.has_value());
          for (const ActivationArgs& activation : {ActivationArgs{}, gelu}) {
            for (const std::int64_t rows : {std::int64_t{3}, std::int64_t{64}, kRows}) {
              if (rows == kRows && (!fused || (threads == 3 && n == 96))) continue;
              std::vector<float> projected(kRows * 2 * n), active(kRows * n),
                  one_by_one(kRows * 70, 0.5f);
              std::vector<float> together = one_by_one;
              backend->linear(x.data(), rows, **first, projected.data(), Epilogue::kStore, 0);
              backend->activate(activation, projected.data(), rows, n, active.data());
              backend->linear(active.data(), rows, **second, one_by_one.data(), Epilogue::kAdd, 0);
              backend->mlp(
                  {activation, **first, **second, projected.data(), active.data(), Epilogue::kAdd},
                  x.data(), rows, together.data());
              ASSERT_TRUE(same_bits(together, one_by_one))
                  << table->name << " n " << n << " threads " << threads << " rows " << rows;
            }
          }
        }
      }
    }
  }
}

// Heads in one product give the bits that each head's matrix gives by itself.
TEST(Linear, HeadsTogetherEqualHeadsAlone) {
  constexpr std::int64_t kHeads = 3, kN = 21, kRows = 70, kXRow = 1000, kYHead = 30, kYRow = 100;
  for (const KernelTable* table : available_kernels()) {
    for (const auto& [dtype, k] : {std::pair{DType::kF32, 19},
                                   {DType::kBF16, 24},
                                   {DType::kQ8_0, 64},
                                   {DType::kQ4_K, 256}}) {
      const std::int64_t x_head = k + 5;
      std::vector<Matrix> matrices;
      std::vector<TensorView> views;
      for (unsigned h = 0; h < kHeads; ++h) matrices.push_back(random_matrix(dtype, kN, k, 11 + h));
      for (const Matrix& matrix : matrices) views.push_back(matrix.view);
      const auto x = random_floats(kRows * kXRow, 12);
      for (const int threads : {1, 3}) {
        const auto backend = make_backend(*table, threads);
        const auto together = backend->pack_heads(views);
        ASSERT_TRUE(together) << together.error().message;
        EXPECT_EQ((*together)->outputs, kN);
        std::vector<float> got(kRows * kYRow, -1.0f), expected = got;
        backend->linear_heads(x.data(), kRows, **together, {kXRow, x_head, kYRow, kYHead},
                              got.data());
        for (std::int64_t h = 0; h < kHeads; ++h) {
          const auto alone =
              backend->pack_linear(std::span(&views[static_cast<std::size_t>(h)], 1), {});
          ASSERT_TRUE(alone);
          backend->linear(x.data() + h * x_head, kRows, **alone, expected.data() + h * kYHead,
                          Epilogue::kStore, kYRow, kXRow);
        }
        EXPECT_TRUE(same_bits(got, expected)) << table->name << " " << dtype_name(dtype);
      }
    }
  }
}

std::vector<std::int32_t> shuffled(std::int64_t n, unsigned seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

// Columns of each matrix in an order of its own, in that of another, or as they are.
TEST(Linear, ColumnsInActivationOrder) {
  constexpr std::int64_t kK = 256, kRows = 7;
  Matrix a = random_matrix(DType::kG4_128, 40, kK, 1), b = random_matrix(DType::kG8_64, 24, kK, 2),
         c = random_matrix(DType::kBF16, 20, kK, 3), d = random_matrix(DType::kQ4_0, 17, kK, 4),
         e = random_matrix(DType::kQ8_0, 9, kK, 5);
  const std::vector<std::int32_t> one = shuffled(kK, 1), same = one, other = shuffled(kK, 2);
  a.view.column_order = one.data();
  b.view.column_order = same.data();
  d.view.column_order = other.data();
  const TensorView weights[] = {a.view, b.view, c.view, d.view, e.view};
  const std::vector<float> bias(110);
  const auto x = random_floats(kRows * kK, 6);
  const auto expected = exact(x, kRows, weights, bias);
  for (const KernelTable* table : available_kernels()) {
    for (const ComputeDType compute : {ComputeDType::kFloat32, ComputeDType::kAuto}) {
      const auto backend = make_backend(*table, 2, compute);
      const auto linear = backend->pack_linear(weights, {});
      ASSERT_TRUE(linear.has_value()) << linear.error().message;
      std::vector<float> y(expected.size()), alone(110);
      backend->linear(x.data(), kRows, **linear, y.data(), Epilogue::kStore, 0);
      const double tolerance = compute == ComputeDType::kFloat32 ? 1e-4 : 3e-2;
      double size = 0, error = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        size += expected[i] * expected[i];
        error += (y[i] - expected[i]) * (y[i] - expected[i]);
      }
      EXPECT_LT(std::sqrt(error / size), tolerance) << table->name;
      // Rows further apart, and one alone.
      std::vector<float> wide(static_cast<std::size_t>(kRows * 300));
      for (std::int64_t r = 0; r < kRows; ++r)
        std::copy(x.begin() + r * kK, x.begin() + (r + 1) * kK, wide.begin() + r * 300);
      backend->linear(wide.data() + 3 * 300, 1, **linear, alone.data(), Epilogue::kStore, 0, 300);
      EXPECT_TRUE(same_bits(alone, {y.begin() + 3 * 110, y.begin() + 4 * 110})) << table->name;
    }
  }
}

TEST(Linear, RefusesWhatItCannotPack) {
  const auto backend = make_backend(*available_kernels().front(), 1);
  const std::vector<std::byte> bytes(256 * 256);
  const TensorView bad_type{bytes.data(), DType::kIQ2_S, Shape{2, 256}};
  auto result = backend->pack_linear(std::span(&bad_type, 1), {});
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("IQ2_S"), std::string::npos);
  const TensorView uneven[] = {{bytes.data(), DType::kF32, Shape{2, 32}},
                               {bytes.data(), DType::kF32, Shape{2, 64}}};
  result = backend->pack_linear(uneven, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kBadFile);
}

}  // namespace
}  // namespace quire
