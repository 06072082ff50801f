// Norms, activation, RoPE and KV store over the sixteen-lane wrapper; contracts and orders of
// addition are in vector_kernels.h. Include after QUIRE_ISA is defined.
#pragma once

#include "kernels/cpu/tiles/vec.h"
#include "kernels/cpu/vector_kernels.h"

namespace quire::QUIRE_ISA {

// ref::exp, lane by lane.
QUIRE_INLINE F32 exp(F32 x) {
  const F32 t = min(set1(88.0f), x);
  const I32 n = round_i32(mul(t, set1(1.44269504f)));
  const F32 nf = to_f32(n);
  F32 r = fma(nf, set1(-0.693359375f), t);
  r = fma(nf, set1(2.12194440e-4f), r);
  F32 p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  const F32 y = add(fma(p, mul(r, r), r), set1(1.0f));
  const F32 power = as_f32(shl<23>(add(n, set1_i32(127))));
  return select_lt(x, set1(-87.0f), zero(), mul(y, power));
}

// ref::softmax_exp, lane by lane.
QUIRE_INLINE F32 softmax_exp(F32 x) {
  const F32 y = mul(x, set1(1.44269504f));
  const I32 n = round_i32(y);
  const F32 r = sub(y, to_f32(n));
  F32 p = set1(1.5353362e-4f);
  p = fma(p, r, set1(1.3398875e-3f));
  p = fma(p, r, set1(9.61843692e-3f));
  p = fma(p, r, set1(5.55033237e-2f));
  p = fma(p, r, set1(2.40226477e-1f));
  p = fma(p, r, set1(6.93147182e-1f));
  p = fma(p, r, set1(1.0f));
  return select_lt(x, set1(-87.0f), zero(), as_f32(add(as_i32(p), shl<23>(n))));
}

// Lanes of a row of n that the vector at i covers.
QUIRE_INLINE int lanes_at(int64_t n, int64_t i) {
  const int64_t rest = n - i;
  return rest >= 16 ? 16 : rest > 0 ? static_cast<int>(rest) : 0;
}

static void rms_norm(const float* x, const float* w, float eps, int64_t n, float* y) {
  F32 acc[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) {
      const F32 v = load(x + i + 16 * j);
      acc[j] = fma(v, v, acc[j]);
    }
  }
  for (int j = 0; i < n; i += 16, ++j) {
    const F32 v = load_n(x + i, lanes_at(n, i));
    acc[j] = fma(v, v, acc[j]);
  }
  const float mean = sum(add(add(acc[0], acc[1]), add(acc[2], acc[3]))) / static_cast<float>(n);
  const F32 inverse = div(set1(1.0f), sqrt(set1(mean + eps)));
  for (i = 0; i + 16 <= n; i += 16) store(y + i, mul(mul(load(x + i), inverse), load(w + i)));
  if (i < n) {
    const int rest = lanes_at(n, i);
    store_n(y + i, mul(mul(load_n(x + i, rest), inverse), load_n(w + i, rest)), rest);
  }
}

QUIRE_INLINE F32 silu_times(F32 gate, F32 up) {
  return mul(div(gate, add(set1(1.0f), exp(sub(zero(), gate)))), up);
}
static void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, silu_times(load(gate + i), load(up + i)));
  if (i < n) {
    const int rest = lanes_at(n, i);
    store_n(out + i, silu_times(load_n(gate + i, rest), load_n(up + i, rest)), rest);
  }
}

static void rope_pairs(float* head, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = head[2 * i], b = head[2 * i + 1];
    head[2 * i] = __builtin_fmaf(a, cos[i], -(b * sin[i]));
    head[2 * i + 1] = __builtin_fmaf(b, cos[i], a * sin[i]);
  }
}
static void rope(float* head, const float* cos, const float* sin, int64_t rotary_dim,
                 bool interleaved) {
  const int64_t half = rotary_dim / 2;
  if (interleaved) return rope_pairs(head, cos, sin, half);
  for (int64_t i = 0; i < half; i += 16) {
    const int n = lanes_at(half, i);
    const F32 a = load_n(head + i, n), b = load_n(head + half + i, n);
    const F32 c = load_n(cos + i, n), s = load_n(sin + i, n);
    store_n(head + i, fma(a, c, mul(mul(b, set1(-1.0f)), s)), n);
    store_n(head + half + i, fma(b, c, mul(a, s)), n);
  }
}

// Element types of the KV cache.
struct KvF32 {
  using Type = float;
  static QUIRE_INLINE F32 get(const Type* p) { return load(p); }
  static QUIRE_INLINE F32 get_n(const Type* p, int n) { return load_n(p, n); }
  static QUIRE_INLINE void put_n(Type* p, F32 v, int n) { store_n(p, v, n); }
};
struct KvBF16 {
  using Type = uint16_t;
  static QUIRE_INLINE F32 get(const Type* p) { return load_bf16(p); }
  static QUIRE_INLINE F32 get_n(const Type* p, int n) { return load_bf16_n(p, n); }
  static QUIRE_INLINE void put_n(Type* p, F32 v, int n) { store_bf16_n(p, v, n); }
};
struct KvF16 {
  using Type = uint16_t;
  static QUIRE_INLINE F32 get(const Type* p) { return load_f16(p); }
  static QUIRE_INLINE F32 get_n(const Type* p, int n) { return load_f16_n(p, n); }
  static QUIRE_INLINE void put_n(Type* p, F32 v, int n) { store_f16_n(p, v, n); }
};

template <class Kv>
static void store_kv_as(const KvStore& s) {
  using Type = typename Kv::Type;
  Type* const k = reinterpret_cast<Type*>(s.block);
  Type* const v = k + static_cast<int64_t>(s.head_dim) * s.block_size;
  // K: 16 rows x 16 dimensions at a time through a small tile, so that a cached line is filled in
  // one go.
  Type tile[16][16];
  for (int32_t r0 = 0; r0 < s.rows; r0 += 16) {
    const int rows = lanes_at(s.rows, r0);
    for (int32_t d0 = 0; d0 < s.head_dim; d0 += 16) {
      const int dims = lanes_at(s.head_dim, d0);
      for (int r = 0; r < rows; ++r) {
        Kv::put_n(tile[r], load_n(s.k + (r0 + r) * s.k_stride + d0, dims), dims);
      }
      for (int d = 0; d < dims; ++d) {
        Type* const line = k + static_cast<int64_t>(d0 + d) * s.block_size + s.offset + r0;
        for (int r = 0; r < rows; ++r) line[r] = tile[r][d];
      }
    }
  }
  for (int32_t r = 0; r < s.rows; ++r) {
    Type* const line = v + static_cast<int64_t>(s.offset + r) * s.v_head_dim;
    for (int32_t d = 0; d < s.v_head_dim; d += 16) {
      const int dims = lanes_at(s.v_head_dim, d);
      Kv::put_n(line + d, load_n(s.v + r * s.v_stride + d, dims), dims);
    }
  }
}
// One token's K or V as int8; element d goes to out + d * stride. Returns its scale.
QUIRE_INLINE float store_kv_codes(const float* x, int64_t n, int8_t* out, int64_t stride) {
  const I32 magnitude = set1_i32(0x7fffffff);
  F32 tops = zero();
  for (int64_t d = 0; d < n; d += 16)
    tops = max(as_f32(bit_and(as_i32(load_n(x + d, lanes_at(n, d))), magnitude)), tops);
  const float top = hmax(tops);
  const bool tiny = !(top >= kTinyKv);
  const F32 inverse = set1(tiny ? 0.0f : 127.0f / top);
  const F32 low = set1(-127.0f), high = set1(127.0f);
  for (int64_t d = 0; d < n; d += 16) {
    const int lanes = lanes_at(n, d);
    alignas(64) int32_t codes[16];
    store_i32(codes, round_i32(min(max(mul(load_n(x + d, lanes), inverse), low), high)));
    for (int i = 0; i < lanes; ++i) out[(d + i) * stride] = static_cast<int8_t>(codes[i]);
  }
  return tiny ? 0.0f : top / 127.0f;
}
static void store_kv_i8(const KvStore& s) {
  int8_t* const k = reinterpret_cast<int8_t*>(s.block);
  int8_t* const v = k + static_cast<int64_t>(s.head_dim) * s.block_size;
  float* const scales =
      reinterpret_cast<float*>(s.block + kv_scales_offset(s.head_dim, s.v_head_dim, s.block_size));
  for (int32_t r = 0; r < s.rows; ++r) {
    const int64_t at = s.offset + r;
    scales[at] = store_kv_codes(s.k + r * s.k_stride, s.head_dim, k + at, s.block_size);
    scales[s.block_size + at] =
        store_kv_codes(s.v + r * s.v_stride, s.v_head_dim, v + at * s.v_head_dim, 1);
  }
}
static void store_kv(const KvStore& s) {
  if (s.dtype == DType::kI8) return store_kv_i8(s);
  if (s.dtype == DType::kF32) return store_kv_as<KvF32>(s);
  if (s.dtype == DType::kBF16) return store_kv_as<KvBF16>(s);
  store_kv_as<KvF16>(s);
}

}  // namespace quire::QUIRE_ISA
