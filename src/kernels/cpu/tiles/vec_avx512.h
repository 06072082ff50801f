// The vector wrapper over zmm registers (AVX-512 F, BW, VL, DQ; VNNI where the flags have it).
#pragma once

#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 complains about its own _mm512_undefined_ps().
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace quire::QUIRE_ISA {

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};
struct U8 {
  __m512i v;
};
inline constexpr int kVectorRegisters = 32;
#ifdef __AVX512VNNI__
inline constexpr int32_t kByteZero = 128;  // vpdpbusd multiplies the byte as it is
#else
inline constexpr int32_t kByteZero = 0;
#endif

QUIRE_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

QUIRE_INLINE F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
QUIRE_INLINE F32 load_n(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
QUIRE_INLINE void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
QUIRE_INLINE void store_n(float* p, F32 a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }
QUIRE_INLINE F32 set1(float x) { return {_mm512_set1_ps(x)}; }
QUIRE_INLINE F32 zero() { return {_mm512_setzero_ps()}; }
QUIRE_INLINE F32 add(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
QUIRE_INLINE F32 sub(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
QUIRE_INLINE F32 mul(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
QUIRE_INLINE F32 div(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
QUIRE_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
QUIRE_INLINE F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
QUIRE_INLINE F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
QUIRE_INLINE F32 sqrt(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
QUIRE_INLINE F32 select_lt(F32 a, F32 b, F32 x, F32 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
QUIRE_INLINE float sum(F32 a) {
  const __m256 e = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
QUIRE_INLINE float hmax(F32 a) {
  const __m256 e = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
  const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}

QUIRE_INLINE I32 load_i32(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
QUIRE_INLINE void store_i32(int32_t* p, I32 a) { _mm512_storeu_si512(p, a.v); }
QUIRE_INLINE int32_t store_codes(int8_t* p, I32 a) {
  const __m128i codes = _mm512_cvtepi32_epi8(a.v);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), codes);
  const __m128i above = _mm_xor_si128(codes, _mm_set1_epi8(static_cast<char>(0x80)));  // + 128
  const __m128i sums = _mm_sad_epu8(above, _mm_setzero_si128());
  return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums))) - 16 * 128;
}
QUIRE_INLINE I32 set1_i32(int32_t x) { return {_mm512_set1_epi32(x)}; }
QUIRE_INLINE I32 add(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
QUIRE_INLINE I32 sub(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
QUIRE_INLINE I32 bit_and(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
QUIRE_INLINE I32 bit_or(I32 a, I32 b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int n>
QUIRE_INLINE I32 shl(I32 a) {
  return {_mm512_slli_epi32(a.v, static_cast<unsigned>(n))};
}
template <int n>
QUIRE_INLINE I32 shr(I32 a) {
  return {_mm512_srli_epi32(a.v, static_cast<unsigned>(n))};
}
QUIRE_INLINE F32 to_f32(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
QUIRE_INLINE I32 round_i32(F32 a) {
  return {_mm512_cvt_roundps_epi32(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
QUIRE_INLINE I32 as_i32(F32 a) { return {_mm512_castps_si512(a.v)}; }
QUIRE_INLINE F32 as_f32(I32 a) { return {_mm512_castsi512_ps(a.v)}; }
QUIRE_INLINE int32_t hsum(I32 a) { return _mm512_reduce_add_epi32(a.v); }

QUIRE_INLINE __m256i load_halves(const uint16_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
QUIRE_INLINE __m256i load_halves_n(const uint16_t* p, int n) {
  return _mm256_maskz_loadu_epi16(first_lanes(n), p);
}
QUIRE_INLINE __m512 widen_bf16(__m256i h) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
// Integer rounding, because vcvtneps2bf16 flushes subnormal numbers.
QUIRE_INLINE __m256i narrow_bf16(__m512 a) {
  const __m512i u = _mm512_castps_si512(a);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
  const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(nan, rounded, quiet));
}
QUIRE_INLINE __m256i narrow_f16(__m512 a) {
  return _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
QUIRE_INLINE F32 load_f16(const uint16_t* p) { return {_mm512_cvtph_ps(load_halves(p))}; }
QUIRE_INLINE F32 load_f16_n(const uint16_t* p, int n) {
  return {_mm512_cvtph_ps(load_halves_n(p, n))};
}
QUIRE_INLINE F32 load_bf16(const uint16_t* p) { return {widen_bf16(load_halves(p))}; }
QUIRE_INLINE F32 load_bf16_n(const uint16_t* p, int n) { return {widen_bf16(load_halves_n(p, n))}; }
QUIRE_INLINE void store_f16(uint16_t* p, F32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(a.v));
}
QUIRE_INLINE void store_f16_n(uint16_t* p, F32 a, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow_f16(a.v));
}
QUIRE_INLINE void store_bf16(uint16_t* p, F32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(a.v));
}
QUIRE_INLINE void store_bf16_n(uint16_t* p, F32 a, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow_bf16(a.v));
}

QUIRE_INLINE F32 from_u8(const uint8_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(v))};
}
QUIRE_INLINE F32 from_i8(const int8_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v))};
}
// Exponent and mantissa go to their places in a bf16, whose exponent counts from 2^-127, not 2^-7;
// the eight codes without an exponent by a table.
QUIRE_INLINE I32 load_e4m3_pairs(const uint8_t* p) {
  alignas(64) static constexpr uint16_t kSmall[32] = {0,      0x3b00, 0x3b80, 0x3bc0,
                                                      0x3c00, 0x3c20, 0x3c40, 0x3c60};
  const __m512i v = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  const __m512i magnitude = _mm512_and_si512(v, _mm512_set1_epi16(0x7f));
  const __m512i normal =
      _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4), _mm512_set1_epi16(120 << 7));
  const __mmask32 small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(8));
  const __m512i value =
      _mm512_mask_permutexvar_epi16(normal, small, magnitude, _mm512_load_si512(kSmall));
  const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(v, _mm512_set1_epi16(0x80)), 8);
  return {_mm512_or_si512(value, sign)};
}
#ifdef __AVX512BF16__
QUIRE_INLINE F32 dot_bf16(F32 acc, I32 w, I32 a) {
  __m512bh wb, ab;
  __builtin_memcpy(&wb, &w, 64);
  __builtin_memcpy(&ab, &a, 64);
  return {_mm512_dpbf16_ps(acc.v, wb, ab)};
}
#else
QUIRE_INLINE F32 dot_bf16(F32 acc, I32 w, I32 a) {
  const I32 high = set1_i32(static_cast<int32_t>(0xffff0000u));
  acc = fma(as_f32(shl<16>(a)), as_f32(shl<16>(w)), acc);
  return fma(as_f32(bit_and(a, high)), as_f32(bit_and(w, high)), acc);
}
#endif

QUIRE_INLINE U8 load_u8(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
QUIRE_INLINE void store_u8(uint8_t* p, U8 a) { _mm512_storeu_si512(p, a.v); }
QUIRE_INLINE U8 set1_u8(uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
QUIRE_INLINE U8 quad(const void* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return {_mm512_set1_epi32(x)};
}
QUIRE_INLINE U8 lookup(const uint8_t* table, U8 index) {
  const __m128i t = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), index.v)};
}
QUIRE_INLINE U8 bit_and(U8 a, U8 b) { return {_mm512_and_si512(a.v, b.v)}; }
QUIRE_INLINE U8 bit_or(U8 a, U8 b) { return {_mm512_or_si512(a.v, b.v)}; }
QUIRE_INLINE I32 as_lanes(U8 a) { return {a.v}; }
QUIRE_INLINE U8 as_bytes(I32 a) { return {a.v}; }
QUIRE_INLINE U8 shl32(U8 a, int n) { return {_mm512_slli_epi32(a.v, static_cast<unsigned>(n))}; }
QUIRE_INLINE U8 shr32(U8 a, int n) { return {_mm512_srli_epi32(a.v, static_cast<unsigned>(n))}; }

#ifdef __AVX512VNNI__
QUIRE_INLINE I32 dot_small(I32 acc, U8 w, U8 a) { return {_mm512_dpbusd_epi32(acc.v, w.v, a.v)}; }
QUIRE_INLINE I32 dot_byte(I32 acc, U8 w, U8 a) { return {_mm512_dpbusd_epi32(acc.v, w.v, a.v)}; }
#else
// 7-bit weights: 2 * 127 * 127 fits the 16-bit sums of vpmaddubsw.
QUIRE_INLINE I32 dot_small(I32 acc, U8 w, U8 a) {
  const __m512i pairs = _mm512_maddubs_epi16(w.v, a.v);
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
}
// |w - 128| * (a with its sign): 2 * 128 * 127 fits.
QUIRE_INLINE I32 dot_byte(I32 acc, U8 w, U8 a) {
  const __m512i q = _mm512_xor_si512(w.v, _mm512_set1_epi8(static_cast<char>(0x80)));
  const __m512i signed_a =
      _mm512_mask_sub_epi8(a.v, _mm512_movepi8_mask(q), _mm512_setzero_si512(), a.v);
  return dot_small(acc, U8{_mm512_abs_epi8(q)}, U8{signed_a});
}
#endif

}  // namespace quire::QUIRE_ISA
