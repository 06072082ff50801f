// Shared by the tests of the CPU backend: random data, and backends over a chosen table and number
// of threads.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace quire::testing_support {

inline std::vector<float> random_floats(std::int64_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = normal(generator);
  return v;
}

inline std::unique_ptr<CpuBackend> make_backend(const KernelTable& table, int threads,
                                                ComputeDType dtype = ComputeDType::kAuto) {
  auto backend =
      std::make_unique<CpuBackend>(table, dtype, ThreadPool::Options{threads, threads <= 2, {}});
  backend->reserve(4096, 1024);
  return backend;
}

inline NormArgs rms_norm(const float* weight, std::int64_t n) {
  NormArgs args;
  args.weight = weight;
  args.n = n;
  return args;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace quire::testing_support
