// Everything that is not a matrix product: norms, activation, RoPE, KV store, attention. One row or one work
// item per call; the backend partitions. All sums in one fixed order, so a row's bits never depend on the batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace quire {

// Keys of one attention tile, by absolute position: tile t covers positions [64 t, 64 t + 64).
inline constexpr int kKvTile = 64;
// Positions of one KV span: a sequence's spans are computed on their own and merged in ascending order, so
// that one long sequence can use several threads without changing a bit.
inline constexpr int kKvSpan = 1024;

struct VectorKernels {
  // y[i] = x[i] / sqrt(mean(x^2) + eps) * w[i]
  void (*rms_norm)(const float* x, const float* w, float eps, std::int64_t n, float* y) = nullptr;
  // out[i] = silu(gate[i]) * up[i]
  void (*silu_mul)(const float* gate, const float* up, std::int64_t n, float* out) = nullptr;
  // Rotates one head in place. cos, sin: [rotary_dim / 2]. interleaved: pairs (2i, 2i+1), else (i, i + rotary_dim/2).
  void (*rope)(float* head, const float* cos, const float* sin, std::int64_t rotary_dim, bool interleaved) = nullptr;
  // Extended by the attention kernels (see attention_kernels in this file's owner).
};

}  // namespace quire
