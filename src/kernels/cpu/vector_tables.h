// Shared by the tests of vector kernels: every table that this machine can run, the reference,
// random data.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_kernels.h"

namespace quire::testing_support {

struct Table {
  std::string name;
  VectorKernels kernels;
};
inline std::vector<Table> tables() {
  std::vector<Table> all(1, {"emulated", {}});
  fill_vector_kernels_emulated(&all[0].kernels);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    fill_vector_kernels_avx2(&all.emplace_back(Table{"avx2", {}}).kernels);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    fill_vector_kernels_avx512(&all.emplace_back(Table{"avx512", {}}).kernels);
  }
#elif defined(__aarch64__)
  fill_vector_kernels_neon(&all.emplace_back(Table{"neon", {}}).kernels);
#endif
  for (const KernelTable* table : available_kernels()) {  // which asks for the tile registers
    if (std::string(table->name) == "amx") all.push_back(Table{"amx", table->vec});
  }
  return all;
}
// All but those that have tiles for this cache, whose attention only comes close to the
// reference's.
inline std::vector<Table> tables_with_attention_of_reference(DType cache) {
  std::vector<Table> all = tables();
  std::erase_if(all, [&](const Table& table) {
    return table.kernels.prefers_bf16_kv && cache == DType::kBF16;
  });
  return all;
}
inline VectorKernels reference() {
  VectorKernels kernels;
  fill_vector_kernels_ref(&kernels);
  return kernels;
}

inline std::vector<float> random_floats(std::int64_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = normal(generator);
  return v;
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace quire::testing_support
