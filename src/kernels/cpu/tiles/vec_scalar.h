// The vector wrapper over plain arrays: the emulation of tiles/vec.h that every machine can run.
#pragma once

namespace quire::QUIRE_ISA {

struct F32 {
  float v[16];
};
struct I32 {
  int32_t v[16];
};
struct U8 {
  uint8_t v[64];
};
inline constexpr int kVectorRegisters = 32;
inline constexpr int32_t kByteZero = 0;  // dot_byte subtracts 128 itself

#define QUIRE_LANES(expr)          \
  do {                             \
    for (int i = 0; i < 16; ++i) { \
      expr;                        \
    }                              \
  } while (0)

QUIRE_INLINE F32 load_n(const float* p, int n) {
  F32 r{};
  for (int i = 0; i < n; ++i) r.v[i] = p[i];
  return r;
}
QUIRE_INLINE F32 load(const float* p) { return load_n(p, 16); }
QUIRE_INLINE void store_n(float* p, F32 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
QUIRE_INLINE void store(float* p, F32 a) { store_n(p, a, 16); }
QUIRE_INLINE F32 set1(float x) {
  F32 r;
  QUIRE_LANES(r.v[i] = x);
  return r;
}
QUIRE_INLINE F32 zero() { return set1(0.0f); }
QUIRE_INLINE F32 add(F32 a, F32 b) {
  QUIRE_LANES(a.v[i] += b.v[i]);
  return a;
}
QUIRE_INLINE F32 sub(F32 a, F32 b) {
  QUIRE_LANES(a.v[i] -= b.v[i]);
  return a;
}
QUIRE_INLINE F32 mul(F32 a, F32 b) {
  QUIRE_LANES(a.v[i] *= b.v[i]);
  return a;
}
QUIRE_INLINE F32 div(F32 a, F32 b) {
  QUIRE_LANES(a.v[i] /= b.v[i]);
  return a;
}
QUIRE_INLINE F32 fma(F32 a, F32 b, F32 c) {
  QUIRE_LANES(c.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]));
  return c;
}
QUIRE_INLINE F32 max(F32 a, F32 b) {
  QUIRE_LANES(a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
  return a;
}
QUIRE_INLINE F32 min(F32 a, F32 b) {
  QUIRE_LANES(a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
  return a;
}
QUIRE_INLINE F32 sqrt(F32 a) {
  QUIRE_LANES(a.v[i] = __builtin_sqrtf(a.v[i]));
  return a;
}
QUIRE_INLINE F32 select_lt(F32 a, F32 b, F32 x, F32 y) {
  QUIRE_LANES(x.v[i] = a.v[i] < b.v[i] ? x.v[i] : y.v[i]);
  return x;
}
QUIRE_INLINE float sum(F32 a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
  return a.v[0];
}
QUIRE_INLINE float hmax(F32 a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  return a.v[0];
}

QUIRE_INLINE I32 load_i32(const int32_t* p) {
  I32 r;
  QUIRE_LANES(r.v[i] = p[i]);
  return r;
}
QUIRE_INLINE void store_i32(int32_t* p, I32 a) { QUIRE_LANES(p[i] = a.v[i]); }
QUIRE_INLINE void store_i8(int8_t* p, I32 a) { QUIRE_LANES(p[i] = static_cast<int8_t>(a.v[i])); }
QUIRE_INLINE I32 set1_i32(int32_t x) {
  I32 r;
  QUIRE_LANES(r.v[i] = x);
  return r;
}
QUIRE_INLINE uint32_t as_unsigned(int32_t x) { return static_cast<uint32_t>(x); }
QUIRE_INLINE I32 add(I32 a, I32 b) {
  QUIRE_LANES(a.v[i] = static_cast<int32_t>(as_unsigned(a.v[i]) + as_unsigned(b.v[i])));
  return a;
}
QUIRE_INLINE I32 sub(I32 a, I32 b) {
  QUIRE_LANES(a.v[i] = static_cast<int32_t>(as_unsigned(a.v[i]) - as_unsigned(b.v[i])));
  return a;
}
QUIRE_INLINE I32 bit_and(I32 a, I32 b) {
  QUIRE_LANES(a.v[i] &= b.v[i]);
  return a;
}
QUIRE_INLINE I32 bit_or(I32 a, I32 b) {
  QUIRE_LANES(a.v[i] |= b.v[i]);
  return a;
}
template <int n>
QUIRE_INLINE I32 shl(I32 a) {
  QUIRE_LANES(a.v[i] = static_cast<int32_t>(as_unsigned(a.v[i]) << n));
  return a;
}
template <int n>
QUIRE_INLINE I32 shr(I32 a) {
  QUIRE_LANES(a.v[i] = static_cast<int32_t>(as_unsigned(a.v[i]) >> n));
  return a;
}
QUIRE_INLINE F32 to_f32(I32 a) {
  F32 r;
  QUIRE_LANES(r.v[i] = static_cast<float>(a.v[i]));
  return r;
}
QUIRE_INLINE I32 round_i32(F32 a) {
  I32 r;
  for (int i = 0; i < 16; ++i) {
    // Out of range and NaN give the most negative number, as the x86 conversions do.
    const bool fits = a.v[i] >= -2147483648.0f && a.v[i] < 2147483648.0f;
    r.v[i] = fits ? static_cast<int32_t>(__builtin_rintf(a.v[i])) : INT32_MIN;
  }
  return r;
}
QUIRE_INLINE I32 as_i32(F32 a) {
  I32 r;
  __builtin_memcpy(&r, &a, sizeof r);
  return r;
}
QUIRE_INLINE F32 as_f32(I32 a) {
  F32 r;
  __builtin_memcpy(&r, &a, sizeof r);
  return r;
}
QUIRE_INLINE int32_t hsum(I32 a) {
  uint32_t s = 0;
  QUIRE_LANES(s += as_unsigned(a.v[i]));
  return static_cast<int32_t>(s);
}

QUIRE_INLINE float half_value(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t rest = h & 0x7fffu;
  uint32_t bits;
  if (rest >= 0x7c00u) {
    bits = 0x7f800000u | ((rest & 0x3ffu) << 13) | ((rest & 0x3ffu) ? 0x400000u : 0u);
  } else if (rest >= 0x400u) {
    bits = (rest << 13) + 0x38000000u;
  } else {
    const float f = static_cast<float>(rest) * 0x1p-24f;
    __builtin_memcpy(&bits, &f, 4);
  }
  bits |= sign;
  float f;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}
QUIRE_INLINE uint16_t half_bits(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, 4);
  const uint32_t sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  uint32_t r;
  if (a > 0x7f800000u) {
    r = 0x7e00u | ((a >> 13) & 0x3ffu);
  } else if (a >= 0x477ff000u) {
    r = 0x7c00u;
  } else if (a < 0x38800000u) {  // a subnormal half: let the adder round at 2^-24
    float t;
    __builtin_memcpy(&t, &a, 4);
    t += 0.5f;
    __builtin_memcpy(&r, &t, 4);
    r -= 0x3f000000u;
  } else {
    r = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | r);
}
QUIRE_INLINE uint16_t brain_bits(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
QUIRE_INLINE F32 load_f16_n(const uint16_t* p, int n) {
  F32 r{};
  for (int i = 0; i < n; ++i) r.v[i] = half_value(p[i]);
  return r;
}
QUIRE_INLINE F32 load_f16(const uint16_t* p) { return load_f16_n(p, 16); }
QUIRE_INLINE F32 load_bf16_n(const uint16_t* p, int n) {
  I32 r{};
  for (int i = 0; i < n; ++i) r.v[i] = static_cast<int32_t>(static_cast<uint32_t>(p[i]) << 16);
  return as_f32(r);
}
QUIRE_INLINE F32 load_bf16(const uint16_t* p) { return load_bf16_n(p, 16); }
QUIRE_INLINE void store_f16_n(uint16_t* p, F32 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = half_bits(a.v[i]);
}
QUIRE_INLINE void store_f16(uint16_t* p, F32 a) { store_f16_n(p, a, 16); }
QUIRE_INLINE void store_bf16_n(uint16_t* p, F32 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = brain_bits(a.v[i]);
}
QUIRE_INLINE void store_bf16(uint16_t* p, F32 a) { store_bf16_n(p, a, 16); }

QUIRE_INLINE F32 from_u8(const uint8_t* p) {
  F32 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(p[i]);
  return r;
}
QUIRE_INLINE F32 from_i8(const int8_t* p) {
  F32 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(p[i]);
  return r;
}
QUIRE_INLINE F32 dot_bf16(F32 acc, I32 w, I32 a) {
  const I32 high = set1_i32(static_cast<int32_t>(0xffff0000u));
  acc = fma(as_f32(shl<16>(a)), as_f32(shl<16>(w)), acc);
  return fma(as_f32(bit_and(a, high)), as_f32(bit_and(w, high)), acc);
}

QUIRE_INLINE U8 load_u8(const uint8_t* p) {
  U8 r;
  __builtin_memcpy(&r, p, 64);
  return r;
}
QUIRE_INLINE void store_u8(uint8_t* p, U8 a) { __builtin_memcpy(p, &a, 64); }
QUIRE_INLINE U8 set1_u8(uint8_t x) {
  U8 r;
  __builtin_memset(&r, x, 64);
  return r;
}
QUIRE_INLINE U8 quad(const void* p) {
  U8 r;
  for (int i = 0; i < 16; ++i) __builtin_memcpy(r.v + 4 * i, p, 4);
  return r;
}
QUIRE_INLINE U8 lookup(const uint8_t* table, U8 index) {
  for (int i = 0; i < 64; ++i) index.v[i] = table[index.v[i]];
  return index;
}
QUIRE_INLINE U8 bit_and(U8 a, U8 b) {
  for (int i = 0; i < 64; ++i) a.v[i] &= b.v[i];
  return a;
}
QUIRE_INLINE U8 bit_or(U8 a, U8 b) {
  for (int i = 0; i < 64; ++i) a.v[i] |= b.v[i];
  return a;
}
QUIRE_INLINE I32 as_lanes(U8 a) {
  I32 r;
  __builtin_memcpy(&r, &a, 64);
  return r;
}
QUIRE_INLINE U8 as_bytes(I32 a) {
  U8 r;
  __builtin_memcpy(&r, &a, 64);
  return r;
}
QUIRE_INLINE U8 shl32(U8 a, int n) {
  I32 r = as_lanes(a);
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int32_t>(as_unsigned(r.v[i]) << n);
  return as_bytes(r);
}
QUIRE_INLINE U8 shr32(U8 a, int n) {
  I32 r = as_lanes(a);
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int32_t>(as_unsigned(r.v[i]) >> n);
  return as_bytes(r);
}
QUIRE_INLINE I32 dot_offset(I32 acc, U8 w, U8 a, int32_t offset) {
  for (int i = 0; i < 64; ++i) acc.v[i / 4] += (w.v[i] - offset) * static_cast<int8_t>(a.v[i]);
  return acc;
}
QUIRE_INLINE I32 dot_small(I32 acc, U8 w, U8 a) { return dot_offset(acc, w, a, 0); }
QUIRE_INLINE I32 dot_byte(I32 acc, U8 w, U8 a) { return dot_offset(acc, w, a, 128); }

#undef QUIRE_LANES

}  // namespace quire::QUIRE_ISA
