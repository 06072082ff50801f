// Shared by the tests of the CPU backend: random data and matrices, and backends over a chosen
// table and number of threads.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "tensor/half.h"

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

struct Matrix {
  std::vector<std::byte> bytes;
  TensorView view;
};

// Random codes with small scales.
inline Matrix random_matrix(DType dtype, std::int64_t n, std::int64_t k, unsigned seed) {
  Matrix m;
  m.bytes.resize(static_cast<std::size_t>(n * row_bytes(dtype, k)));
  std::mt19937 generator(seed);
  for (std::byte& b : m.bytes) b = static_cast<std::byte>(generator());
  const auto values = random_floats(n * k, seed, 0.1f);
  const auto put_half = [&](std::int64_t at, float f) {
    const std::uint16_t h = f32_to_f16(f);
    std::memcpy(m.bytes.data() + at, &h, 2);
  };
  const std::int64_t block = dtype_info(dtype).block_bytes;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(m.bytes.size()) / block; ++i) {
    const float value = values[static_cast<std::size_t>(i)];
    switch (dtype) {
      case DType::kF32:
        std::memcpy(m.bytes.data() + i * 4, &value, 4);
        break;
      case DType::kF16:
        put_half(i * 2, value);
        break;
      case DType::kBF16: {
        const std::uint16_t h = f32_to_bf16(value);
        std::memcpy(m.bytes.data() + i * 2, &h, 2);
        break;
      }
      case DType::kQ8_0:
        put_half(i * block, value / 64);
        break;
      case DType::kQ4_1:
      case DType::kQ5_1:
      case DType::kQ4_K:
      case DType::kQ5_K:
        put_half(i * block, value / 100);
        put_half(i * block + 2, value / 50);
        break;
      case DType::kQ6_K:
        put_half(i * block + block - 2, value / 1000);
        break;
      case DType::kIQ4_XS:
      case DType::kIQ3_S:
        put_half(i * block, value / 4000);
        break;
      case DType::kIQ4_NL:
        put_half(i * block, value / 80);
        break;
      case DType::kQ2_K:
        put_half(i * block + block - 4, value / 40);
        put_half(i * block + block - 2, value / 50);
        break;
      case DType::kQ3_K:
        put_half(i * block + block - 2, value / 50);
        break;
      case DType::kTQ2_0:
        put_half(i * block + block - 2, value);
        break;
      case DType::kMXFP4:
        m.bytes[static_cast<std::size_t>(i * block)] =
            static_cast<std::byte>(118 + generator() % 8);
        break;
      case DType::kF8_128: {
        const float scale = value / 100;
        std::byte* const at = m.bytes.data() + i * block;
        std::memcpy(at, &scale, 4);
        for (std::int64_t code = 4; code < block; ++code) {  // no NaN
          if ((at[code] & std::byte{0x7f}) == std::byte{0x7f}) at[code] ^= std::byte{1};
        }
        break;
      }
      case DType::kG4_128:
        put_half(i * block, value / 8);
        m.bytes[static_cast<std::size_t>(i * block + 2)] = static_cast<std::byte>(generator() % 17);
        break;
      default:
        put_half(i * block, value / 8);
        break;
    }
  }
  m.view = {m.bytes.data(), dtype, Shape{n, k}};
  return m;
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
