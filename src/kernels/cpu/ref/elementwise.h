// Reference activations and other work on single elements; the contracts are in vector_kernels.h.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/cpu/ref/vector_math.h"
#include "kernels/cpu/vector_kernels.h"

namespace quire::ref {

inline void layer_norm(const float* x, const float* w, const float* b, float eps, std::int64_t n,
                       float* y) {
  float lanes[64] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i % 64] += x[i];
  const float mean = fold_lanes(lanes) / static_cast<float>(n);
  std::fill(lanes, lanes + 64, 0.0f);
  for (std::int64_t i = 0; i < n; ++i)
    lanes[i % 64] = std::fma(x[i] - mean, x[i] - mean, lanes[i % 64]);
  const float inverse = 1.0f / std::sqrt(fold_lanes(lanes) / static_cast<float>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = (x[i] - mean) * inverse;
    y[i] = b != nullptr ? std::fma(v, w[i], b[i]) : v * w[i];
  }
}

inline float activation_of(const Activation& a, float x) {
  switch (a.kind) {
    case ActivationKind::kSilu:
      return x / sigmoid_divisor(x);
    case ActivationKind::kGeluQuick:
      return x / sigmoid_divisor(1.702f * x);
    case ActivationKind::kGeluTanh: {
      const float u = 0.79788456f * std::fma(0.044715f * (x * x), x, x);
      return x / sigmoid_divisor(u + u);
    }
    case ActivationKind::kGeluErf: {
      const float size = x > -x ? x : -x;
      return std::fma(-0.5f * size, erfc(size * 0.70710678f), x > 0.0f ? x : 0.0f);
    }
    case ActivationKind::kRelu:
      return x > 0.0f ? x : 0.0f;
    case ActivationKind::kRelu2:
      return x > 0.0f ? x * x : 0.0f;
    case ActivationKind::kXielu: {
      if (0.0f < x) return std::fma(a.alpha_p * x, x, a.beta * x);
      const float e = exp(x < a.xielu_eps ? x : a.xielu_eps) - 1.0f;
      return std::fma(e - x, a.alpha_n, a.beta * x);
    }
    case ActivationKind::kSwigluOai: {
      const float g = x < a.limit ? x : a.limit;
      return g / sigmoid_divisor(a.alpha * g);
    }
  }
  return x;
}

inline void activate(const Activation& a, const float* gate, const float* up, std::int64_t n,
                     float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = activation_of(a, gate[i]);
    if (up == nullptr) {
      out[i] = v;
    } else if (a.kind == ActivationKind::kSwigluOai) {
      const float low = up[i] < a.limit ? up[i] : a.limit;
      out[i] = v * ((low > -a.limit ? low : -a.limit) + 1.0f);
    } else {
      out[i] = v * up[i];
    }
  }
}

inline float soft_cap(float cap, float x) { return cap * tanh(x / cap); }

inline void map(MapOp op, float a, std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (op == MapOp::kScale) {
      x[i] *= a;
    } else if (op == MapOp::kClamp) {
      const float low = x[i] < a ? x[i] : a;
      x[i] = low > -a ? low : -a;
    } else {
      x[i] = soft_cap(a, x[i]);
    }
  }
}

inline void sigmoid_mul(const float* gate, std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = x[i] / sigmoid_divisor(gate[i]);
}

inline void add_scaled(const float* x, float a, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = std::fma(x[i], a, y[i]);
}

}  // namespace quire::ref
