// Embedding, norms, activations, sums of rows, RoPE, and the loop for other people's work.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "base/trace.h"
#include "tensor/dequantize.h"

namespace quire {

void CpuBackend::embed(const TensorView& table, std::span<const std::int32_t> ids, float* y) {
  const TraceSpan span(TraceKind::kEmbed, static_cast<std::int64_t>(ids.size()));
  const std::int64_t n = table.columns(), vocab = table.rows();
  for_rows(static_cast<std::int64_t>(ids.size()), n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int32_t id = ids[static_cast<std::size_t>(r)];
      QUIRE_CHECK(id >= 0 && id < vocab, "token {} is outside the vocabulary of {}", id, vocab);
      dequantize_row(table.dtype, table.row(id), n, y + r * n);
    }
  });
}

void CpuBackend::norm(const NormArgs& args, const float* x, std::int64_t rows, float* y) {
  const TraceSpan span(TraceKind::kNorm, rows);
  const std::int64_t n = args.n, width = args.groups * n;
  const std::int64_t x_stride = args.x_stride > 0 ? args.x_stride : width;
  const std::int64_t y_stride = args.y_stride > 0 ? args.y_stride : width;
  for_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t g = 0; g < args.groups; ++g) {
        const std::int64_t at = args.own_weights ? g * n : 0;
        const float* const from = x + r * x_stride + g * n;
        float* const to = y + r * y_stride + g * n;
        if (args.kind == NormKind::kLayer) {
          kernels_.vec.layer_norm(from, args.weight + at,
                                  args.bias != nullptr ? args.bias + at : nullptr, args.eps, n, to);
        } else {
          kernels_.vec.rms_norm(from, args.weight + at, args.eps, n, to);
          if (args.bias != nullptr) kernels_.vec.add_scaled(args.bias + at, 1.0f, n, to);
        }
      }
    }
  });
}

void CpuBackend::activate_row(const ActivationArgs& args, const float* x, std::int64_t n,
                              float* y) const {
  const float* const up = args.gated ? x + n : nullptr;
  if (args.gated && args.kind == ActivationKind::kSilu) return kernels_.vec.silu_mul(x, up, n, y);
  kernels_.vec.activate(
      {args.kind, args.alpha, args.limit, args.alpha_p, args.alpha_n, args.beta, args.xielu_eps}, x,
      up, n, y);
}

void CpuBackend::activate(const ActivationArgs& args, const float* x, std::int64_t rows,
                          std::int64_t n, float* y) {
  const TraceSpan span(TraceKind::kActivate, rows);
  const std::int64_t width = args.gated ? 2 * n : n;
  for_rows(rows, 2 * n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) activate_row(args, x + width * r, n, y + r * n);
  });
}

void CpuBackend::map(MapKind kind, float a, float* x, std::int64_t rows, std::int64_t n) {
  const TraceSpan span(TraceKind::kMap, rows);
  const MapOp op = kind == MapKind::kScale   ? MapOp::kScale
                   : kind == MapKind::kClamp ? MapOp::kClamp
                                             : MapOp::kSoftCap;
  for_rows(rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) kernels_.vec.map(op, a, n, x + r * n);
  });
}

void CpuBackend::add_scaled(const float* x, float a, const float* row_scale, std::int64_t rows,
                            std::int64_t n, float* y) {
  const TraceSpan span(TraceKind::kAddScaled, rows);
  for_rows(rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float factor = row_scale != nullptr ? a * row_scale[r] : a;
      kernels_.vec.add_scaled(x + r * n, factor, n, y + r * n);
    }
  });
}

void CpuBackend::scale_rows(const float* factors, std::int64_t rows, std::int64_t n,
                            std::int64_t x_stride, float* x) {
  const TraceSpan span(TraceKind::kScaleRows, rows);
  for_rows(rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      kernels_.vec.map(MapOp::kScale, factors[r], n, x + r * x_stride);
  });
}

void CpuBackend::sigmoid_mul(const float* gate, std::int64_t gate_stride, std::int64_t rows,
                             std::int64_t n, float* x) {
  const TraceSpan span(TraceKind::kSigmoidMul, rows);
  for_rows(rows, n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      kernels_.vec.sigmoid_mul(gate + r * gate_stride, n, x + r * n);
  });
}

void CpuBackend::gather_rows(const float* x, std::span<const std::int32_t> index, std::int64_t n,
                             float* y) {
  const TraceSpan span(TraceKind::kGatherRows, static_cast<std::int64_t>(index.size()));
  for_rows(static_cast<std::int64_t>(index.size()), n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* const row = x + index[static_cast<std::size_t>(r)] * n;
      std::copy(row, row + n, y + r * n);
    }
  });
}

void CpuBackend::combine(const float* x, const std::int32_t* index, const float* weights,
                         std::int64_t rows, std::int32_t top_k, std::int64_t n, Epilogue epilogue,
                         float* y) {
  const TraceSpan span(TraceKind::kCombine, rows);
  for_rows(rows, top_k * n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const row = y + r * n;
      if (epilogue == Epilogue::kStore) std::fill(row, row + n, 0.0f);
      for (std::int64_t k = r * top_k; k < (r + 1) * top_k; ++k)
        kernels_.vec.add_scaled(x + index[k] * n, weights[k], n, row);
    }
  });
}

void CpuBackend::rope_table(std::span<const std::int32_t> positions,
                            std::span<const double> inv_freq, double scale, float* cos,
                            float* sin) {
  const TraceSpan span(TraceKind::kRopeTable, static_cast<std::int64_t>(positions.size()));
  const auto half = static_cast<std::int64_t>(inv_freq.size());
  constexpr std::int64_t kElementsPerAngle = 32;  // a cosine and a sine cost about as much
  for_rows(static_cast<std::int64_t>(positions.size()), kElementsPerAngle * half,
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               const double position = positions[static_cast<std::size_t>(r)];
               for (std::int64_t i = 0; i < half; ++i) {
                 const double angle = position * inv_freq[static_cast<std::size_t>(i)];
                 cos[r * half + i] = static_cast<float>(scale * std::cos(angle));
                 sin[r * half + i] = static_cast<float>(scale * std::sin(angle));
               }
             }
           });
}

void CpuBackend::rope(const RopeArgs& args, std::int64_t rows, float* x) {
  const TraceSpan span(TraceKind::kRope, rows);
  const std::int64_t half = args.rotary_dim / 2;
  for_rows(rows, args.heads * args.rotary_dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      for (std::int64_t h = 0; h < args.heads; ++h) {
        kernels_.vec.rope(x + r * args.row_stride + h * args.head_stride, args.cos + r * half,
                          args.sin + r * half, args.rotary_dim, args.interleaved);
      }
    }
  });
}

void CpuBackend::parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& fn) {
  const TraceSpan span(TraceKind::kParallelFor, count);
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
