// Layer norm, activations and the other element-by-element kernels: the reference against plain
// formulas in double, the tables against the reference's bits. The same for attention's soft cap,
// slopes and chunks.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/ref/vector_math.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/vector_tables.h"

namespace quire {
namespace {

using testing_support::random_floats;
using testing_support::reference;
using testing_support::same_bits;
using testing_support::Table;
using testing_support::tables;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(VectorMath, TanhAndErfcAreAccurate) {
  for (float x = -12.0f; x < 12.0f; x += 0.00317f) {
    const double exact = std::tanh(static_cast<double>(x));
    EXPECT_NEAR(ref::tanh(x), exact, 3e-7 * std::abs(exact)) << x;
    if (x < 0) continue;
    EXPECT_NEAR(ref::erfc(x), std::erfc(static_cast<double>(x)), 5e-7) << x;
  }
  EXPECT_EQ(ref::tanh(1000.0f), 1.0f);
  EXPECT_EQ(ref::tanh(-1000.0f), -1.0f);
  EXPECT_EQ(ref::tanh(0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(ref::tanh(NAN)));
}

TEST(ElementwiseKernels, LayerNorm) {
  for (const std::int64_t n : {1, 7, 16, 63, 64, 65, 100, 1000}) {
    const auto x = random_floats(n, 1), w = random_floats(n, 2), b = random_floats(n, 3);
    for (const float* bias : {b.data(), static_cast<const float*>(nullptr)}) {
      std::vector<float> expected(x.size());
      reference().layer_norm(x.data(), w.data(), bias, 1e-5f, n, expected.data());
      double mean = 0, variance = 0;
      for (float v : x) mean += v / static_cast<double>(n);
      for (float v : x) variance += (v - mean) * (v - mean) / static_cast<double>(n);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = (x[i] - mean) / std::sqrt(variance + 1e-5) * w[i] + (bias ? b[i] : 0);
        EXPECT_NEAR(expected[i], exact, 2e-6 * (1 + std::abs(exact)));
      }
      for (const Table& table : tables()) {
        std::vector<float> y = x;
        table.kernels.layer_norm(y.data(), w.data(), bias, 1e-5f, n, y.data());  // in place
        EXPECT_TRUE(same_bits(y, expected)) << table.name << " n " << n;
      }
    }
  }
}

Activation xielu() {
  Activation a{ActivationKind::kXielu};
  a.alpha_p = 0.8f;
  a.alpha_n = 1.3f;
  a.beta = 0.5f;
  a.xielu_eps = -1e-6f;
  return a;
}

double plain_activation(const Activation& a, double x) {
  switch (a.kind) {
    case ActivationKind::kSilu:
      return x * sigmoid(x);
    case ActivationKind::kGeluQuick:
      return x * sigmoid(1.702 * x);
    case ActivationKind::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case ActivationKind::kRelu:
      return std::max(x, 0.0);
    case ActivationKind::kRelu2:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case ActivationKind::kXielu:
      return x > 0 ? a.alpha_p * x * x + a.beta * x
                   : (std::expm1(std::min<double>(x, a.xielu_eps)) - x) * a.alpha_n + a.beta * x;
    case ActivationKind::kSwigluOai:
      return std::min<double>(x, a.limit) * sigmoid(a.alpha * std::min<double>(x, a.limit));
  }
  return 0;
}

TEST(ElementwiseKernels, Activations) {
  using Kind = ActivationKind;
  const Activation all[] = {{Kind::kSilu}, {Kind::kGeluTanh}, {Kind::kGeluErf}, {Kind::kGeluQuick},
                            {Kind::kRelu}, {Kind::kRelu2},    xielu(),          {Kind::kSwigluOai}};
  for (const Activation& a : all) {
    for (const std::int64_t n : {1, 16, 37, 200}) {
      auto gate = random_floats(n, 3, 4.0f), up = random_floats(n, 4, 4.0f);
      gate[0] = n == 37 ? 300.0f : -200.0f;
      for (const bool gated : {false, true}) {
        std::vector<float> expected(gate.size());
        reference().activate(a, gate.data(), gated ? up.data() : nullptr, n, expected.data());
        for (std::size_t i = 0; i < gate.size(); ++i) {
          double exact = plain_activation(a, gate[i]);
          if (gated && a.kind == Kind::kSwigluOai)
            exact *= std::clamp(up[i], -a.limit, a.limit) + 1.0;
          else if (gated)
            exact *= up[i];
          EXPECT_NEAR(expected[i], exact, 3e-6 * (1 + std::abs(exact)))
              << static_cast<int>(a.kind) << " " << gate[i];
        }
        for (const Table& table : tables()) {
          std::vector<float> y(gate.size());
          table.kernels.activate(a, gate.data(), gated ? up.data() : nullptr, n, y.data());
          EXPECT_TRUE(same_bits(y, expected))
              << table.name << " kind " << static_cast<int>(a.kind) << " n " << n;
        }
      }
    }
  }
}

// Runs one in-place kernel over every table and compares it with a formula.
void check_map(const std::function<void(const VectorKernels&, std::int64_t, float*)>& run,
               const std::function<double(std::size_t, double)>& exact) {
  for (const std::int64_t n : {1, 16, 53}) {
    const auto x = random_floats(n, 5, 20.0f);
    std::vector<float> expected = x;
    run(reference(), n, expected.data());
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(expected[i], exact(i, x[i]), 3e-6 * (1 + std::abs(x[i])));
    for (const Table& table : tables()) {
      std::vector<float> y = x;
      run(table.kernels, n, y.data());
      EXPECT_TRUE(same_bits(y, expected)) << table.name << " n " << n;
    }
  }
}

TEST(ElementwiseKernels, MapsGatesAndSums) {
  const auto other = random_floats(64, 6);
  check_map(
      [](const VectorKernels& k, std::int64_t n, float* x) { k.map(MapOp::kScale, 0.3f, n, x); },
      [](std::size_t, double x) { return 0.3f * x; });
  check_map(
      [](const VectorKernels& k, std::int64_t n, float* x) { k.map(MapOp::kClamp, 7.0f, n, x); },
      [](std::size_t, double x) { return std::clamp(x, -7.0, 7.0); });
  check_map(
      [](const VectorKernels& k, std::int64_t n, float* x) { k.map(MapOp::kSoftCap, 15.0f, n, x); },
      [](std::size_t, double x) { return 15 * std::tanh(x / 15); });
  check_map(
      [&](const VectorKernels& k, std::int64_t n, float* x) { k.sigmoid_mul(other.data(), n, x); },
      [&](std::size_t i, double x) { return x * sigmoid(other[i]); });
  check_map([&](const VectorKernels& k, std::int64_t n,
                float* x) { k.add_scaled(other.data(), 2.5f, n, x); },
            [&](std::size_t i, double x) { return x + 2.5 * other[i]; });
}

// One sequence in one block of float32.
struct PlainCache {
  std::vector<float> k, v;  // [position][dim]
  std::vector<float> block;
  KvHead head;
  std::int32_t number = 0;

  PlainCache(std::int32_t positions, std::int32_t dim)
      : k(random_floats(std::int64_t{positions} * dim, 11)),
        v(random_floats(std::int64_t{positions} * dim, 12)) {
    block.resize(static_cast<std::size_t>(2 * 256 * dim));
    KvStore store;
    store.k = k.data();
    store.v = v.data();
    store.k_stride = store.v_stride = dim;
    store.rows = positions;
    store.block = reinterpret_cast<std::byte*>(block.data());
    store.block_size = 256;
    store.head_dim = store.v_head_dim = dim;
    store.dtype = DType::kF32;
    reference().store_kv(store);
    head.base = store.block;
    head.blocks = &number;
    head.block_size = 256;
    head.dtype = DType::kF32;
    head.head_dim = head.v_head_dim = dim;
  }
};

std::vector<float> attend_span(const VectorKernels& kernels, AttentionItem item) {
  const auto vectors = static_cast<std::size_t>(item.rows * item.heads);
  const auto padded = static_cast<std::size_t>(round_up_16(item.kv.v_head_dim));
  std::vector<float> scratch(
      static_cast<std::size_t>(attention_scratch_floats(item.kv.head_dim, item.kv.v_head_dim)));
  std::vector<float> max(vectors), sum(vectors), acc(vectors * padded);
  item.scratch = scratch.data();
  const SoftmaxState state{max.data(), sum.data(), acc.data()};
  kernels.attention_span(item, state);
  std::vector<float> out(vectors * static_cast<std::size_t>(item.kv.v_head_dim));
  kernels.attention_finish(state, static_cast<std::int64_t>(vectors), item.heads,
                           item.kv.v_head_dim, std::int64_t{item.heads} * item.kv.v_head_dim,
                           out.data());
  return out;
}

TEST(AttentionOptions, SoftCapSlopesAndChunks) {
  constexpr std::int32_t kDim = 16, kRows = 5, kHeads = 2, kFirst = 140;
  const PlainCache cache(kFirst + kRows, kDim);
  const auto q = random_floats(kRows * kHeads * kDim, 41, 3.0f);
  const float slopes[] = {0.25f, 0.0625f};
  for (const float cap : {0.0f, 4.0f}) {
    for (const bool alibi : {false, true}) {
      for (const std::int32_t chunk : {0, 8, 71}) {
        AttentionItem item;
        item.kv = cache.head;
        item.q = q.data();
        item.q_stride = kHeads * kDim;
        item.rows = kRows;
        item.heads = kHeads;
        item.first_pos = kFirst;
        item.soft_cap = cap;
        item.alibi = alibi ? slopes : nullptr;
        item.chunk = chunk;
        const auto out = attend_span(reference(), item);
        for (std::int64_t i = 0; i < kRows * kHeads; ++i) {
          const std::int64_t pos = kFirst + i / kHeads;
          double sum = 0, acc[kDim] = {};
          for (std::int64_t key = chunk > 0 ? pos - pos % chunk : 0; key <= pos; ++key) {
            double score = 0;
            for (std::int64_t d = 0; d < kDim; ++d)
              score += static_cast<double>(q[static_cast<std::size_t>(i * kDim + d)]) *
                       cache.k[static_cast<std::size_t>(key * kDim + d)];
            if (cap > 0) score = cap * std::tanh(score / cap);
            if (alibi) score += slopes[i % kHeads] * static_cast<double>(key - pos);
            sum += std::exp(score);
            for (std::int64_t d = 0; d < kDim; ++d)
              acc[d] += std::exp(score) * cache.v[static_cast<std::size_t>(key * kDim + d)];
          }
          for (std::int64_t d = 0; d < kDim; ++d)
            EXPECT_NEAR(out[static_cast<std::size_t>(i * kDim + d)], acc[d] / sum, 2e-5);
        }
        for (const Table& table : tables())
          EXPECT_TRUE(same_bits(attend_span(table.kernels, item), out)) << table.name;
      }
    }
  }
}

}  // namespace
}  // namespace quire
