// The vector wrapper over four q registers (Armv8.2-A with dotprod and fp16; i8mm where it may be
// used).
#pragma once

#include <arm_neon.h>

#define QUIRE_VEC_HALVES  // vec_halves.h adds the rest

namespace quire::QUIRE_ISA {

struct F32 {
  float32x4_t v[4];
};
struct I32 {
  int32x4_t v[4];
};
struct U8 {
  uint8x16_t v[4];
};
inline constexpr int kVectorRegisters = 8;  // values of 16 lanes
#ifdef __ARM_FEATURE_MATMUL_INT8
inline constexpr int32_t kByteZero = 128;  // usdot multiplies the byte as it is
#else
inline constexpr int32_t kByteZero = 0;  // dot_byte subtracts 128 itself
#endif

#define QUIRE_PARTS(expr)         \
  do {                            \
    for (int i = 0; i < 4; ++i) { \
      expr;                       \
    }                             \
  } while (0)

QUIRE_INLINE F32 load(const float* p) {
  F32 r;
  QUIRE_PARTS(r.v[i] = vld1q_f32(p + 4 * i));
  return r;
}
QUIRE_INLINE void store(float* p, F32 a) { QUIRE_PARTS(vst1q_f32(p + 4 * i, a.v[i])); }
QUIRE_INLINE F32 load_n(const float* p, int n) {
  float t[16] = {};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return load(t);
}
QUIRE_INLINE void store_n(float* p, F32 a, int n) {
  float t[16];
  store(t, a);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}
QUIRE_INLINE F32 set1(float x) {
  F32 r;
  QUIRE_PARTS(r.v[i] = vdupq_n_f32(x));
  return r;
}
QUIRE_INLINE F32 zero() { return set1(0.0f); }
QUIRE_INLINE F32 add(F32 a, F32 b) {
  QUIRE_PARTS(a.v[i] = vaddq_f32(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE F32 sub(F32 a, F32 b) {
  QUIRE_PARTS(a.v[i] = vsubq_f32(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE F32 mul(F32 a, F32 b) {
  QUIRE_PARTS(a.v[i] = vmulq_f32(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE F32 div(F32 a, F32 b) {
  QUIRE_PARTS(a.v[i] = vdivq_f32(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE F32 fma(F32 a, F32 b, F32 c) {
  QUIRE_PARTS(c.v[i] = vfmaq_f32(c.v[i], a.v[i], b.v[i]));
  return c;
}
// Comparisons and selects, because vmaxq gives NaN when either is NaN.
QUIRE_INLINE F32 select_lt(F32 a, F32 b, F32 x, F32 y) {
  QUIRE_PARTS(x.v[i] = vbslq_f32(vcltq_f32(a.v[i], b.v[i]), x.v[i], y.v[i]));
  return x;
}
QUIRE_INLINE F32 max(F32 a, F32 b) { return select_lt(b, a, a, b); }
QUIRE_INLINE F32 min(F32 a, F32 b) { return select_lt(a, b, a, b); }
QUIRE_INLINE F32 sqrt(F32 a) {
  QUIRE_PARTS(a.v[i] = vsqrtq_f32(a.v[i]));
  return a;
}
QUIRE_INLINE float sum(F32 a) {
  const float32x4_t q = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t d = vadd_f32(vget_low_f32(q), vget_high_f32(q));
  return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
QUIRE_INLINE float hmax(F32 a) {
  float t[16];
  store(t, a);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
  return t[0];
}

QUIRE_INLINE I32 load_i32(const int32_t* p) {
  I32 r;
  QUIRE_PARTS(r.v[i] = vld1q_s32(p + 4 * i));
  return r;
}
QUIRE_INLINE void store_i32(int32_t* p, I32 a) { QUIRE_PARTS(vst1q_s32(p + 4 * i, a.v[i])); }
QUIRE_INLINE I32 set1_i32(int32_t x) {
  I32 r;
  QUIRE_PARTS(r.v[i] = vdupq_n_s32(x));
  return r;
}
QUIRE_INLINE I32 add(I32 a, I32 b) {
  QUIRE_PARTS(a.v[i] = vaddq_s32(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE I32 sub(I32 a, I32 b) {
  QUIRE_PARTS(a.v[i] = vsubq_s32(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE I32 bit_and(I32 a, I32 b) {
  QUIRE_PARTS(a.v[i] = vandq_s32(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE I32 bit_or(I32 a, I32 b) {
  QUIRE_PARTS(a.v[i] = vorrq_s32(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE int32x4_t shift_left(int32x4_t v, int n) { return vshlq_s32(v, vdupq_n_s32(n)); }
QUIRE_INLINE int32x4_t shift_right(int32x4_t v, int n) {
  return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v), vdupq_n_s32(-n)));
}
template <int n>
QUIRE_INLINE I32 shl(I32 a) {
  QUIRE_PARTS(a.v[i] = shift_left(a.v[i], n));
  return a;
}
template <int n>
QUIRE_INLINE I32 shr(I32 a) {
  QUIRE_PARTS(a.v[i] = shift_right(a.v[i], n));
  return a;
}
QUIRE_INLINE F32 to_f32(I32 a) {
  F32 r;
  QUIRE_PARTS(r.v[i] = vcvtq_f32_s32(a.v[i]));
  return r;
}
// Saturates where the x86 conversions give the most negative number; no caller leaves the range.
QUIRE_INLINE I32 round_i32(F32 a) {
  I32 r;
  QUIRE_PARTS(r.v[i] = vcvtnq_s32_f32(a.v[i]));
  return r;
}
QUIRE_INLINE I32 as_i32(F32 a) {
  I32 r;
  QUIRE_PARTS(r.v[i] = vreinterpretq_s32_f32(a.v[i]));
  return r;
}
QUIRE_INLINE F32 as_f32(I32 a) {
  F32 r;
  QUIRE_PARTS(r.v[i] = vreinterpretq_f32_s32(a.v[i]));
  return r;
}
QUIRE_INLINE int32_t hsum(I32 a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[1]), vaddq_s32(a.v[2], a.v[3])));
}

QUIRE_INLINE F32 load_f16(const uint16_t* p) {
  F32 r;
  QUIRE_PARTS(r.v[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))));
  return r;
}
QUIRE_INLINE F32 load_bf16(const uint16_t* p) {
  F32 r;
  QUIRE_PARTS(r.v[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)));
  return r;
}
QUIRE_INLINE void store_f16(uint16_t* p, F32 a) {
  QUIRE_PARTS(vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i]))));
}
QUIRE_INLINE uint16x4_t narrow_bf16(float32x4_t a) {
  const uint32x4_t u = vreinterpretq_u32_f32(a), high = vshrq_n_u32(u, 16);
  const uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
  const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd), 16);
  const uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
  return vmovn_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet));
}
QUIRE_INLINE void store_bf16(uint16_t* p, F32 a) {
  QUIRE_PARTS(vst1_u16(p + 4 * i, narrow_bf16(a.v[i])));
}
QUIRE_INLINE F32 from_u8(const uint8_t* p) {
  const uint8x16_t b = vld1q_u8(p);
  const uint16x8_t low = vmovl_u8(vget_low_u8(b)), high = vmovl_u8(vget_high_u8(b));
  return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
           vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
           vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
           vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};
}
QUIRE_INLINE F32 from_i8(const int8_t* p) {
  const int8x16_t b = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(b)), high = vmovl_s8(vget_high_s8(b));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
           vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
QUIRE_INLINE U8 load_u8(const uint8_t* p) {
  U8 r;
  QUIRE_PARTS(r.v[i] = vld1q_u8(p + 16 * i));
  return r;
}
QUIRE_INLINE void store_u8(uint8_t* p, U8 a) { QUIRE_PARTS(vst1q_u8(p + 16 * i, a.v[i])); }
QUIRE_INLINE U8 set1_u8(uint8_t x) {
  U8 r;
  QUIRE_PARTS(r.v[i] = vdupq_n_u8(x));
  return r;
}
QUIRE_INLINE U8 quad(const void* p) {
  uint32_t x;
  __builtin_memcpy(&x, p, 4);
  U8 r;
  QUIRE_PARTS(r.v[i] = vreinterpretq_u8_u32(vdupq_n_u32(x)));
  return r;
}
QUIRE_INLINE U8 lookup(const uint8_t* table, U8 index) {
  const uint8x16_t t = vld1q_u8(table);
  QUIRE_PARTS(index.v[i] = vqtbl1q_u8(t, index.v[i]));
  return index;
}
QUIRE_INLINE U8 bit_and(U8 a, U8 b) {
  QUIRE_PARTS(a.v[i] = vandq_u8(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE U8 bit_or(U8 a, U8 b) {
  QUIRE_PARTS(a.v[i] = vorrq_u8(a.v[i], b.v[i]));
  return a;
}
QUIRE_INLINE I32 as_lanes(U8 a) {
  I32 r;
  QUIRE_PARTS(r.v[i] = vreinterpretq_s32_u8(a.v[i]));
  return r;
}
QUIRE_INLINE U8 as_bytes(I32 a) {
  U8 r;
  QUIRE_PARTS(r.v[i] = vreinterpretq_u8_s32(a.v[i]));
  return r;
}
QUIRE_INLINE U8 shl32(U8 a, int n) {
  QUIRE_PARTS(a.v[i] = vreinterpretq_u8_s32(shift_left(vreinterpretq_s32_u8(a.v[i]), n)));
  return a;
}
QUIRE_INLINE U8 shr32(U8 a, int n) {
  QUIRE_PARTS(a.v[i] = vreinterpretq_u8_s32(shift_right(vreinterpretq_s32_u8(a.v[i]), n)));
  return a;
}
#ifdef __ARM_FEATURE_MATMUL_INT8
QUIRE_INLINE I32 dot_byte(I32 acc, U8 w, U8 a) {
  QUIRE_PARTS(acc.v[i] = vusdotq_s32(acc.v[i], w.v[i], vreinterpretq_s8_u8(a.v[i])));
  return acc;
}
QUIRE_INLINE I32 dot_small(I32 acc, U8 w, U8 a) { return dot_byte(acc, w, a); }
#else
// Codes of at most 7 bits are the same bits as signed bytes.
QUIRE_INLINE I32 dot_small(I32 acc, U8 w, U8 a) {
  QUIRE_PARTS(acc.v[i] =
                  vdotq_s32(acc.v[i], vreinterpretq_s8_u8(w.v[i]), vreinterpretq_s8_u8(a.v[i])));
  return acc;
}
QUIRE_INLINE I32 dot_byte(I32 acc, U8 w, U8 a) {
  QUIRE_PARTS(w.v[i] = veorq_u8(w.v[i], vdupq_n_u8(0x80)));
  return dot_small(acc, w, a);
}
#endif

#undef QUIRE_PARTS

}  // namespace quire::QUIRE_ISA
