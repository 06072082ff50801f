// Embedding, norms, activation, RoPE tables, and the loop for other people's work.
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "tensor/dequantize.h"

namespace quire {

void CpuBackend::embed(const TensorView& table, std::span<const std::int32_t> ids, float* y) {
  const std::int64_t n = table.columns(), vocab = table.rows();
  for_rows(static_cast<std::int64_t>(ids.size()), n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int32_t id = ids[static_cast<std::size_t>(r)];
      QUIRE_CHECK(id >= 0 && id < vocab, "token {} is outside the vocabulary of {}", id, vocab);
      dequantize_row(table.dtype, table.row(id), n, y + r * n);
    }
  });
}

void CpuBackend::rms_norm(const float* x, const float* w, float eps, std::int64_t rows,
                          std::int64_t n, float* y) {
  for_rows(rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      kernels_.vec.rms_norm(x + r * n, w, eps, n, y + r * n);
  });
}

void CpuBackend::silu_mul(const float* gate_up, std::int64_t rows, std::int64_t n, float* y) {
  for_rows(rows, 2 * n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const gate = gate_up + 2 * n * r;
      kernels_.vec.silu_mul(gate, gate + n, n, y + r * n);
    }
  });
}

void CpuBackend::rope_table(std::span<const std::int32_t> positions,
                            std::span<const double> inv_freq, float* cos, float* sin) {
  const auto half = static_cast<std::int64_t>(inv_freq.size());
  constexpr std::int64_t kElementsPerAngle = 32;  // a cosine and a sine cost about as much
  for_rows(static_cast<std::int64_t>(positions.size()), kElementsPerAngle * half,
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               const double position = positions[static_cast<std::size_t>(r)];
               for (std::int64_t i = 0; i < half; ++i) {
                 const double angle = position * inv_freq[static_cast<std::size_t>(i)];
                 cos[r * half + i] = static_cast<float>(std::cos(angle));
                 sin[r * half + i] = static_cast<float>(std::sin(angle));
               }
             }
           });
}

void CpuBackend::parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& fn) {
  if (count <= 1 || pool_.size() == 1) {
    for (std::int64_t i = 0; i < count; ++i) fn(i);
    return;
  }
  next_item_.store(0, std::memory_order_relaxed);
  pool_.run([&](int) {
    for (std::int64_t i; (i = next_item_.fetch_add(1, std::memory_order_relaxed)) < count;) fn(i);
  });
}

}  // namespace quire
