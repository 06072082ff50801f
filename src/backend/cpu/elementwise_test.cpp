#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>

#include "backend/cpu/testing.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::random_floats;
using testing_support::same_bits;

TEST(Elementwise, EmbedCopiesRowsOfTheTable) {
  const auto backend = make_backend(*available_kernels().back(), 2);
  const auto table = random_floats(10 * 4096, 1);
  const TensorView view{reinterpret_cast<const std::byte*>(table.data()), DType::kF32,
                        Shape{10, 4096}};
  const std::int32_t ids[] = {3, 9, 0, 3, 1, 2, 4, 5};
  std::vector<float> y(8 * 4096);
  backend->embed(view, ids, y.data());
  for (std::size_t r = 0; r < 8; ++r) {
    for (std::size_t i = 0; i < 4096; i += 1000) {
      EXPECT_EQ(y[r * 4096 + i], table[static_cast<std::size_t>(ids[r]) * 4096 + i]);
    }
  }
}

TEST(Elementwise, RowsAreIndependentOfThreads) {
  constexpr std::int64_t kRows = 40, kN = 1000;
  const auto x = random_floats(kRows * 2 * kN, 2), w = random_floats(kN, 3);
  for (const KernelTable* table : available_kernels()) {
    std::vector<float> norm[2], silu[2];
    for (int i = 0; i < 2; ++i) {
      const auto backend = make_backend(*table, i == 0 ? 1 : 3);
      norm[i].resize(kRows * kN);
      silu[i].resize(kRows * kN);
      backend->norm(testing_support::rms_norm(w.data(), kN), x.data(), kRows, norm[i].data());
      backend->activate({}, x.data(), kRows, kN, silu[i].data());
    }
    EXPECT_TRUE(same_bits(norm[0], norm[1]));
    EXPECT_TRUE(same_bits(silu[0], silu[1]));
    const float gate = x[2 * kN * 7 + 5], up = x[2 * kN * 7 + kN + 5];
    EXPECT_NEAR(silu[0][7 * kN + 5], gate / (1 + std::exp(-gate)) * up, 1e-5);
  }
}

TEST(Elementwise, RopeTableIsCosAndSinInDouble) {
  const auto backend = make_backend(*available_kernels().front(), 2);
  std::vector<std::int32_t> positions(100);
  std::iota(positions.begin(), positions.end(), 100000);
  const std::vector<double> frequencies = {1.0, 0.25, 1e-4};
  std::vector<float> cos(300), sin(300);
  backend->rope_table(positions, frequencies, 1.0, cos.data(), sin.data());
  EXPECT_EQ(cos[3 * 42 + 1], static_cast<float>(std::cos(100042 * 0.25)));
  EXPECT_EQ(sin[3 * 99 + 2], static_cast<float>(std::sin(100099 * 1e-4)));
}

TEST(Elementwise, ParallelForRunsEveryIndexOnce) {
  const auto backend = make_backend(*available_kernels().front(), 3);
  std::vector<std::atomic<int>> counts(100);
  backend->parallel_for(100, [&](std::int64_t i) { ++counts[static_cast<std::size_t>(i)]; });
  for (const auto& count : counts) EXPECT_EQ(count, 1);
  backend->parallel_for(0, [&](std::int64_t) { FAIL(); });
}

TEST(MakeCpuBackend, SaysWhatItChoseAndRefusesWhatItLacks) {
  CpuBackendOptions options;
  options.kernels = "ref";
  options.threads = 2;
  const auto backend = make_cpu_backend(options);
  ASSERT_TRUE(backend.has_value());
  EXPECT_EQ((*backend)->description(), "cpu (ref, 2 threads)");
  EXPECT_EQ((*backend)->num_threads(), 2);
  options.threads = -1;
  EXPECT_FALSE(make_cpu_backend(options).has_value());
  options.threads = 0;
  options.kernels = "mmx";
  EXPECT_FALSE(make_cpu_backend(options).has_value());
}

}  // namespace
}  // namespace quire
