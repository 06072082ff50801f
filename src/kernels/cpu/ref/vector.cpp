// Reference norms, activation, RoPE and KV store.
#include <cmath>

#include "base/check.h"
#include "kernels/cpu/ref/attention.h"
#include "kernels/cpu/ref/elementwise.h"
#include "kernels/cpu/ref/vector_math.h"
#include "kernels/cpu/vector_kernels.h"
#include "tensor/half.h"

namespace quire {
namespace ref {

static void rms_norm(const float* x, const float* w, float eps, std::int64_t n, float* y) {
  float lanes[64] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i % 64] = std::fma(x[i], x[i], lanes[i % 64]);
  const float mean = fold_lanes(lanes) / static_cast<float>(n);
  const float inverse = 1.0f / std::sqrt(mean + eps);
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] * inverse) * w[i];
}

static void silu_mul(const float* gate, const float* up, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + exp(-gate[i])) * up[i];
}

static void rope(float* head, const float* cos, const float* sin, std::int64_t rotary_dim,
                 bool interleaved) {
  const std::int64_t half = rotary_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    float& a = interleaved ? head[2 * i] : head[i];
    float& b = interleaved ? head[2 * i + 1] : head[i + half];
    const float x = a, y = b;
    a = std::fma(x, cos[i], -(y * sin[i]));
    b = std::fma(y, cos[i], x * sin[i]);
  }
}

template <class T, class Round>
static void store_kv_as(const KvStore& s, Round round) {
  T* const k = reinterpret_cast<T*>(s.block);
  T* const v = k + s.head_dim * s.block_size;
  for (std::int32_t r = 0; r < s.rows; ++r) {
    const std::int32_t offset = s.offset + r;
    for (std::int32_t d = 0; d < s.head_dim; ++d)
      k[d * s.block_size + offset] = round(s.k[r * s.k_stride + d]);
    for (std::int32_t d = 0; d < s.v_head_dim; ++d)
      v[offset * s.v_head_dim + d] = round(s.v[r * s.v_stride + d]);
  }
}
// One token's K or V; element d goes to out[d * stride]. Returns its scale.
static float store_codes(const float* x, std::int32_t n, std::int8_t* out, std::int32_t stride) {
  float top = 0.0f;
  for (std::int32_t d = 0; d < n; ++d) top = std::fabs(x[d]) > top ? std::fabs(x[d]) : top;
  const bool tiny = !(top >= kTinyKv);
  const float inverse = tiny ? 0.0f : 127.0f / top;
  for (std::int32_t d = 0; d < n; ++d) {
    // The order of the comparisons sends NaN to -127.
    float y = x[d] * inverse;
    y = y > -127.0f ? y : -127.0f;
    y = y < 127.0f ? y : 127.0f;
    out[d * stride] = static_cast<std::int8_t>(std::nearbyint(y));
  }
  return tiny ? 0.0f : top / 127.0f;
}
static void store_kv_i8(const KvStore& s) {
  auto* const k = reinterpret_cast<std::int8_t*>(s.block);
  auto* const v = k + s.head_dim * s.block_size;
  auto* const scales =
      reinterpret_cast<float*>(s.block + kv_scales_offset(s.head_dim, s.v_head_dim, s.block_size));
  for (std::int32_t r = 0; r < s.rows; ++r) {
    const std::int32_t at = s.offset + r;
    scales[at] = store_codes(s.k + r * s.k_stride, s.head_dim, k + at, s.block_size);
    scales[s.block_size + at] =
        store_codes(s.v + r * s.v_stride, s.v_head_dim, v + at * s.v_head_dim, 1);
  }
}
void store_kv(const KvStore& s) {
  switch (s.dtype) {
    case DType::kF32:
      return store_kv_as<float>(s, [](float f) { return f; });
    case DType::kBF16:
      return store_kv_as<std::uint16_t>(s, f32_to_bf16);
    case DType::kF16:
      return store_kv_as<std::uint16_t>(s, f32_to_f16);
    case DType::kI8:
      return store_kv_i8(s);
    default:
      QUIRE_CHECK(false, "no KV cache of {}", dtype_name(s.dtype));
  }
}

}  // namespace ref

void fill_vector_kernels_ref(VectorKernels* kernels) {
  kernels->rms_norm = ref::rms_norm;
  kernels->layer_norm = ref::layer_norm;
  kernels->silu_mul = ref::silu_mul;
  kernels->activate = ref::activate;
  kernels->map = ref::map;
  kernels->sigmoid_mul = ref::sigmoid_mul;
  kernels->add_scaled = ref::add_scaled;
  kernels->rope = ref::rope;
  kernels->store_kv = ref::store_kv;
  kernels->attention_span = ref::attention_span;
  kernels->attention_merge = ref::attention_merge;
  kernels->attention_finish = ref::attention_finish;
}

}  // namespace quire
