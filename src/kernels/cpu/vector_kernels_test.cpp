// Every table of vector kernels gives the bits of the reference, odd sizes included; the reference
// itself is held to plain formulas in double.
#include "kernels/cpu/vector_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/attention_testing.h"
#include "kernels/cpu/ref/vector_math.h"
#include "kernels/cpu/vector_tables.h"
#include "tensor/half.h"

namespace quire {
namespace {

using testing_support::attend;
using testing_support::Cache;
using testing_support::LatentProblem;
using testing_support::random_floats;
using testing_support::reference;
using testing_support::same_bits;
using testing_support::Table;
using testing_support::tables;
using testing_support::tables_with_attention_of_reference;

TEST(VectorKernels, ExpIsAccurateToTwoUlp) {
  EXPECT_EQ(ref::exp(0.0f), 1.0f);
  EXPECT_EQ(ref::exp(-87.5f), 0.0f);
  EXPECT_EQ(ref::exp(kNoScore), 0.0f);
  EXPECT_TRUE(std::isnan(ref::exp(NAN)));
  double worst = 0;
  for (float x = -87.0f; x <= 88.0f; x += 0.00731f) {
    const double exact = std::exp(static_cast<double>(x));
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(ref::exp(x) - exact) / ulp);
  }
  EXPECT_LT(worst, 2.0);
}

TEST(SoftmaxExp, IsCloseToLibmBelowZero) {
  EXPECT_EQ(ref::softmax_exp(0.0f), 1.0f);
  EXPECT_EQ(ref::softmax_exp(-87.5f), 0.0f);
  EXPECT_EQ(ref::softmax_exp(kNoScore), 0.0f);
  EXPECT_EQ(ref::softmax_exp(-INFINITY), 0.0f);
  EXPECT_TRUE(std::isnan(ref::softmax_exp(NAN)));
  for (float x = -87.0f; x <= 0.0f; x += 0.00137f) {
    const double exact = std::exp(static_cast<double>(x));
    const double error = ref::softmax_exp(x) / exact - 1;
    ASSERT_LE(std::abs(error), std::ldexp(1.0 - static_cast<double>(x) / 3, -22)) << x;
  }
}

TEST(VectorKernels, RmsNormFollowsItsFormulaAndTheReferenceBits) {
  for (const std::int64_t n : {1, 7, 15, 16, 17, 63, 64, 65, 80, 100, 576, 1000}) {
    const auto x = random_floats(n, 1), w = random_floats(n, 2);
    std::vector<float> expected(x.size());
    reference().rms_norm(x.data(), w.data(), 1e-5f, n, expected.data());
    double squares = 0;
    for (float v : x) squares += static_cast<double>(v) * v;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * w[i];
      EXPECT_NEAR(expected[i], exact, 1e-6 * (1 + std::abs(exact)));
    }
    for (const Table& table : tables()) {
      std::vector<float> y = x;
      table.kernels.rms_norm(y.data(), w.data(), 1e-5f, n, y.data());  // in place
      EXPECT_TRUE(same_bits(y, expected)) << table.name << " n " << n;
    }
  }
}

TEST(VectorKernels, SiluMul) {
  for (const std::int64_t n : {1, 16, 31, 1536}) {
    auto gate = random_floats(n, 3, 5.0f);
    gate[0] = -200.0f;
    const auto up = random_floats(n, 4);
    std::vector<float> expected(gate.size());
    reference().silu_mul(gate.data(), up.data(), n, expected.data());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double exact = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
      EXPECT_NEAR(expected[i], exact, 1e-6 * (1 + std::abs(exact)));
    }
    for (const Table& table : tables()) {
      std::vector<float> y(gate.size());
      table.kernels.silu_mul(gate.data(), up.data(), n, y.data());
      EXPECT_TRUE(same_bits(y, expected)) << table.name << " n " << n;
    }
  }
}

TEST(VectorKernels, RopeRotatesPairsInBothLayouts) {
  for (const bool interleaved : {false, true}) {
    for (const std::int64_t dim : {2, 16, 24, 64, 80}) {
      const auto x = random_floats(dim + 5, 5);  // the last five stay
      std::vector<float> cos, sin;
      for (int i = 0; i < dim / 2; ++i) {
        cos.push_back(std::cos(0.7f * static_cast<float>(i + 1)));
        sin.push_back(std::sin(0.7f * static_cast<float>(i + 1)));
      }
      std::vector<float> expected = x;
      reference().rope(expected.data(), cos.data(), sin.data(), dim, interleaved);
      for (std::size_t i = 0; i < cos.size(); ++i) {
        const std::size_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + cos.size();
        EXPECT_NEAR(expected[a], x[a] * cos[i] - x[b] * sin[i], 1e-5);
        EXPECT_NEAR(expected[b], x[b] * cos[i] + x[a] * sin[i], 1e-5);
      }
      EXPECT_EQ(expected.back(), x.back());
      for (const Table& table : tables()) {
        std::vector<float> y = x;
        table.kernels.rope(y.data(), cos.data(), sin.data(), dim, interleaved);
        EXPECT_TRUE(same_bits(y, expected))
            << table.name << " dim " << dim << " interleaved " << interleaved;
      }
    }
  }
}

TEST(VectorKernels, StoreKvWritesTheLayoutOfTheReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8}) {
    for (const std::int32_t head_dim : {16, 24, 64}) {
      constexpr std::int32_t kBlock = 32, kRows = 19, kOffset = 5;
      const std::int32_t v_dim = head_dim + 8, stride = head_dim + v_dim;
      const auto rows = random_floats(kRows * stride, 21);
      const auto store = [&](const VectorKernels& kernels) {
        std::vector<std::byte> block(
            static_cast<std::size_t>(kBlock * (stride * dtype_info(dtype).block_bytes + 8)));
        KvStore s{rows.data(), rows.data() + head_dim,
                  stride,      stride,
                  kRows,       block.data(),
                  kBlock,      kOffset,
                  head_dim,    v_dim,
                  dtype};
        kernels.store_kv(s);
        return block;
      };
      const auto expected = store(reference());
      if (dtype == DType::kBF16) {
        const auto* p = reinterpret_cast<const std::uint16_t*>(expected.data());
        EXPECT_EQ(p[3 * kBlock + kOffset + 2],
                  f32_to_bf16(rows[2 * static_cast<std::size_t>(stride) + 3]));
      }
      if (dtype == DType::kI8) {  // K of row 2, within half a step
        const auto* codes = reinterpret_cast<const std::int8_t*>(expected.data());
        float scale;
        std::memcpy(&scale, codes + kBlock * stride + 4 * (kOffset + 2), 4);
        EXPECT_GT(scale, 0.0f);
        for (std::int32_t d = 0; d < head_dim; ++d)
          EXPECT_NEAR(static_cast<float>(codes[d * kBlock + kOffset + 2]) * scale,
                      rows[static_cast<std::size_t>(2 * stride + d)], 0.501f * scale);
      }
      for (const Table& table : tables()) EXPECT_EQ(store(table.kernels), expected) << table.name;
    }
  }
}

struct Shape {
  std::int32_t head_dim, v_head_dim, heads, rows, block_size, window;
  std::int64_t first_pos;
  DType dtype;
  float soft_cap = 0;
  bool slopes = false;
  std::int32_t chunk = 0;
};
const Shape kShapes[] = {
    {64, 64, 3, 1, 32, 0, 0, DType::kBF16},
    {64, 64, 3, 1, 32, 0, 99, DType::kBF16},
    {64, 64, 3, 21, 32, 0, 50, DType::kF32},
    {24, 24, 1, 17, 8, 0, 3, DType::kF16},
    {80, 80, 7, 9, 16, 0, 130, DType::kBF16},
    {96, 48, 2, 5, 24, 0, 77, DType::kF32},
    {128, 128, 4, 3, 256, 0, 1100, DType::kBF16},
    {16, 16, 9, 7, 40, 0, 64, DType::kF16},
    {64, 64, 3, 21, 32, 13, 50, DType::kBF16},
    {32, 32, 2, 30, 8, 70, 1010, DType::kF32},
    {256, 256, 1, 2, 64, 1, 200, DType::kBF16},
    {64, 64, 64, 1, 32, 1030, 2100, DType::kBF16},
    {64, 64, 3, 21, 32, 0, 50, DType::kI8},
    {24, 24, 1, 17, 8, 0, 3, DType::kI8},
    {96, 40, 2, 5, 24, 0, 77, DType::kI8},
    {128, 128, 4, 3, 256, 50, 1100, DType::kI8},
    {112, 112, 2, 5, 32, 0, 70, DType::kBF16},
    {160, 160, 2, 3, 16, 0, 70, DType::kF16},
    {192, 128, 2, 3, 32, 0, 70, DType::kBF16},
    {192, 192, 1, 3, 32, 0, 70, DType::kI8},
    {20, 20, 2, 9, 16, 0, 70, DType::kF16},
    {36, 12, 2, 9, 16, 0, 70, DType::kBF16},
    {10, 6, 3, 5, 8, 0, 70, DType::kI8},
    {100, 100, 1, 5, 24, 0, 70, DType::kF32},
    // Two spans, a soft cap, slopes or chunks.
    {20, 24, 2, 3, 32, 0, 1040, DType::kF16, 4.0f},
    {24, 24, 2, 3, 32, 0, 1040, DType::kBF16, 4.0f, true},
    {40, 40, 3, 3, 16, 0, 1040, DType::kF16, 0.0f, true},
    {24, 24, 2, 3, 32, 0, 1040, DType::kI8, 4.0f, true},
    {24, 24, 2, 9, 32, 0, 1021, DType::kI8, 0.0f, false, 71},
    {24, 24, 2, 9, 32, 0, 1021, DType::kF16, 2.0f, true, 500},
};

TEST(VectorKernels, AttentionEqualsTheReferenceBits) {
  for (const Shape& shape : kShapes) {
    Cache cache(shape.first_pos + shape.rows, shape.block_size, shape.head_dim, shape.v_head_dim,
                shape.dtype);
    const auto q = random_floats(std::int64_t{shape.rows} * shape.heads * shape.head_dim, 31);
    AttentionItem item;
    item.kv = cache.head;
    item.q = q.data();
    item.q_stride = std::int64_t{shape.heads} * shape.head_dim;
    item.rows = shape.rows;
    item.heads = shape.heads;
    item.first_pos = shape.first_pos;
    item.window = shape.window;
    item.chunk = shape.chunk;
    item.soft_cap = shape.soft_cap;
    const std::vector<float> slopes = random_floats(shape.heads, 32, 0.1f);
    if (shape.slopes) item.alibi = slopes.data();
    item.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    const auto expected = attend(reference(), item);
    for (const float v : expected) ASSERT_TRUE(std::isfinite(v));
    for (const Table& table : tables_with_attention_of_reference(shape.dtype)) {
      EXPECT_TRUE(same_bits(attend(table.kernels, item), expected))
          << table.name << " head_dim " << shape.head_dim << " rows " << shape.rows << " block "
          << shape.block_size;
    }
  }
}

// Latent attention: V is the first part of K. The same bits as with a copy of it.
TEST(VectorKernels, ValuesInsideOfKeysEqualACopyOfThem) {
  struct Sizes {
    std::int32_t head_dim, v_head_dim, block_size, rows;
    DType dtype;
  };
  for (const Sizes& sizes : {Sizes{14, 10, 8, 5, DType::kF32}, Sizes{72, 64, 32, 1, DType::kBF16},
                             Sizes{37, 33, 24, 21, DType::kF16}}) {
    LatentProblem problem(sizes.head_dim, sizes.v_head_dim, sizes.block_size, sizes.rows,
                          sizes.dtype, 0.2f);
    AttentionItem& item = problem.item;
    const auto expected = attend(reference(), item);
    item.kv = problem.inside.head;
    EXPECT_TRUE(same_bits(attend(reference(), item), expected));
    for (const Table& table : tables_with_attention_of_reference(sizes.dtype))
      EXPECT_TRUE(same_bits(attend(table.kernels, item), expected)) << table.name;
  }
}

// In int8 a key and the value inside of it have one scale; a copy has its own, and is only close.
TEST(VectorKernels, ValuesInsideOfInt8KeysHaveTheScaleOfTheKey) {
  for (const std::int32_t rows : {1, 21}) {
    for (const auto& [head_dim, v_head_dim] : {std::pair{14, 10}, {72, 64}, {37, 33}}) {
      LatentProblem problem(head_dim, v_head_dim, 24, rows, DType::kI8, 0.2f);
      const auto copied = attend(reference(), problem.item);
      problem.item.kv = problem.inside.head;
      const auto expected = attend(reference(), problem.item);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(expected[i], copied[i], 0.05f) << i;
      for (const Table& table : tables())
        EXPECT_TRUE(same_bits(attend(table.kernels, problem.item), expected)) << table.name;
    }
  }
}

TEST(VectorKernels, ReferenceAttentionIsSoftmaxOfScoresTimesValues) {
  for (const std::int32_t window : {0, 100}) {
    constexpr std::int32_t kDim = 24, kRows = 2;
    constexpr std::int64_t kFirst = 1200;
    Cache cache(kFirst + kRows, 32, kDim, kDim, DType::kF32);
    const auto q = random_floats(kRows * kDim, 41);
    const auto k = random_floats((kFirst + kRows) * kDim, 11),
               v = random_floats((kFirst + kRows) * kDim, 12);
    AttentionItem item;
    item.kv = cache.head;
    item.q = q.data();
    item.q_stride = kDim;
    item.rows = kRows;
    item.heads = 1;
    item.first_pos = kFirst;
    item.scale = 0.3f;
    item.window = window;
    const auto out = attend(reference(), item);
    for (std::int64_t r = 0; r < kRows; ++r) {
      double sum = 0, acc[kDim] = {};
      for (std::int64_t pos = window ? kFirst + r - window + 1 : 0; pos <= kFirst + r; ++pos) {
        double score = 0;
        for (std::int64_t d = 0; d < kDim; ++d) {
          score += static_cast<double>(q[static_cast<std::size_t>(r * kDim + d)]) *
                   k[static_cast<std::size_t>(pos * kDim + d)];
        }
        const double p = std::exp(0.3 * score);
        sum += p;
        for (std::int64_t d = 0; d < kDim; ++d)
          acc[d] += p * v[static_cast<std::size_t>(pos * kDim + d)];
      }
      for (std::int64_t d = 0; d < kDim; ++d) {
        EXPECT_NEAR(out[static_cast<std::size_t>(r * kDim + d)], acc[d] / sum, 2e-6);
      }
    }
  }
}

}  // namespace
}  // namespace quire
