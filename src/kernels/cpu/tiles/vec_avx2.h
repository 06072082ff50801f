// The vector wrapper over two ymm registers (AVX2, FMA, F16C; dot products with AVX-VNNI where it
// may be used).
#pragma once

#include <immintrin.h>

#define QUIRE_VEC_HALVES  // vec_halves.h adds the rest

namespace quire::QUIRE_ISA {

struct F32 {
  __m256 lo, hi;
};
struct I32 {
  __m256i lo, hi;
};
struct U8 {
  __m256i lo, hi;
};
inline constexpr int kVectorRegisters = 8;  // values of 16 lanes
#ifdef __AVXVNNI__
inline constexpr int32_t kByteZero = 128;  // vpdpbusd multiplies the byte as it is
#else
inline constexpr int32_t kByteZero = 0;  // dot_byte subtracts 128 itself
#endif

// Lanes [base, base + 8) that lie below n.
QUIRE_INLINE __m256i first_lanes(int n, int base) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - base), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
QUIRE_INLINE F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
QUIRE_INLINE F32 load_n(const float* p, int n) {
  return {_mm256_maskload_ps(p, first_lanes(n, 0)), _mm256_maskload_ps(p + 8, first_lanes(n, 8))};
}
QUIRE_INLINE void store(float* p, F32 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
QUIRE_INLINE void store_n(float* p, F32 a, int n) {
  _mm256_maskstore_ps(p, first_lanes(n, 0), a.lo);
  _mm256_maskstore_ps(p + 8, first_lanes(n, 8), a.hi);
}
QUIRE_INLINE F32 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
QUIRE_INLINE F32 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
QUIRE_INLINE F32 add(F32 a, F32 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32 sub(F32 a, F32 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32 mul(F32 a, F32 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32 div(F32 a, F32 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32 fma(F32 a, F32 b, F32 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_INLINE F32 max(F32 a, F32 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32 min(F32 a, F32 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
QUIRE_INLINE F32 sqrt(F32 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
QUIRE_INLINE F32 select_lt(F32 a, F32 b, F32 x, F32 y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
QUIRE_INLINE float sum(F32 a) {
  const __m256 e = _mm256_add_ps(a.lo, a.hi);
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
QUIRE_INLINE float hmax(F32 a) {
  const __m256 e = _mm256_max_ps(a.lo, a.hi);
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
  const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}

QUIRE_INLINE __m256i load_256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
QUIRE_INLINE I32 load_i32(const int32_t* p) { return {load_256(p), load_256(p + 8)}; }
QUIRE_INLINE void store_i32(int32_t* p, I32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
QUIRE_INLINE void store_i8(int8_t* p, I32 a) {
  const __m256i pairs = _mm256_packs_epi32(a.lo, a.hi);  // 0-3 8-11 | 4-7 12-15
  const __m256i words = _mm256_permute4x64_epi64(pairs, 0xd8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
QUIRE_INLINE I32 set1_i32(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
QUIRE_INLINE I32 add(I32 a, I32 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
QUIRE_INLINE I32 sub(I32 a, I32 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
QUIRE_INLINE I32 bit_and(I32 a, I32 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
QUIRE_INLINE I32 bit_or(I32 a, I32 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
template <int n>
QUIRE_INLINE I32 shl(I32 a) {
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
template <int n>
QUIRE_INLINE I32 shr(I32 a) {
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}
QUIRE_INLINE F32 to_f32(I32 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
QUIRE_INLINE I32 round_i32(F32 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
QUIRE_INLINE I32 as_i32(F32 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
QUIRE_INLINE F32 as_f32(I32 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
QUIRE_INLINE int32_t hsum(I32 a) {
  const __m256i e = _mm256_add_epi32(a.lo, a.hi);
  const __m128i q = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
  const __m128i d = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_shuffle_epi32(d, 1)));
}

QUIRE_INLINE __m128i load_8_halves(const uint16_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
QUIRE_INLINE __m256 widen_bf16(__m128i h) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
QUIRE_INLINE __m128i narrow_bf16(__m256 a) {
  const __m256i u = _mm256_castps_si256(a), high = _mm256_srli_epi32(u, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  const __m256i r = _mm256_blendv_epi8(rounded, quiet, nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}
QUIRE_INLINE F32 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_8_halves(p)), _mm256_cvtph_ps(load_8_halves(p + 8))};
}
QUIRE_INLINE F32 load_bf16(const uint16_t* p) {
  return {widen_bf16(load_8_halves(p)), widen_bf16(load_8_halves(p + 8))};
}
QUIRE_INLINE void store_f16(uint16_t* p, F32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
QUIRE_INLINE void store_bf16(uint16_t* p, F32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_bf16(a.lo));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), narrow_bf16(a.hi));
}
QUIRE_INLINE F32 from_u8(const uint8_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)))};
}
QUIRE_INLINE F32 from_i8(const int8_t* p) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
}
QUIRE_INLINE U8 load_u8(const uint8_t* p) { return {load_256(p), load_256(p + 32)}; }
QUIRE_INLINE void store_u8(uint8_t* p, U8 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), a.hi);
}
QUIRE_INLINE U8 set1_u8(uint8_t x) {
  const __m256i v = _mm256_set1_epi8(static_cast<char>(x));
  return {v, v};
}
QUIRE_INLINE U8 quad(const void* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
QUIRE_INLINE U8 lookup(const uint8_t* table, U8 index) {
  const __m256i t =
      _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(t, index.lo), _mm256_shuffle_epi8(t, index.hi)};
}
QUIRE_INLINE U8 bit_and(U8 a, U8 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
QUIRE_INLINE U8 bit_or(U8 a, U8 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
QUIRE_INLINE I32 as_lanes(U8 a) { return {a.lo, a.hi}; }
QUIRE_INLINE U8 as_bytes(I32 a) { return {a.lo, a.hi}; }
QUIRE_INLINE U8 shl32(U8 a, int n) {
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
QUIRE_INLINE U8 shr32(U8 a, int n) {
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}

#ifdef __AVXVNNI__
QUIRE_INLINE I32 dot_byte(I32 acc, U8 w, U8 a) {
  return {_mm256_dpbusd_avx_epi32(acc.lo, w.lo, a.lo), _mm256_dpbusd_avx_epi32(acc.hi, w.hi, a.hi)};
}
QUIRE_INLINE I32 dot_small(I32 acc, U8 w, U8 a) { return dot_byte(acc, w, a); }
#else
// 7-bit weights: 2 * 127 * 127 fits the 16-bit sums of vpmaddubsw.
QUIRE_INLINE __m256i dot_half(__m256i acc, __m256i w, __m256i a) {
  const __m256i pairs = _mm256_maddubs_epi16(w, a);
  return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
QUIRE_INLINE I32 dot_small(I32 acc, U8 w, U8 a) {
  return {dot_half(acc.lo, w.lo, a.lo), dot_half(acc.hi, w.hi, a.hi)};
}
// |w - 128| * (a with its sign): 2 * 128 * 127 fits.
QUIRE_INLINE I32 dot_byte(I32 acc, U8 w, U8 a) {
  const __m256i offset = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i lo = _mm256_xor_si256(w.lo, offset), hi = _mm256_xor_si256(w.hi, offset);
  return {dot_half(acc.lo, _mm256_abs_epi8(lo), _mm256_sign_epi8(a.lo, lo)),
          dot_half(acc.hi, _mm256_abs_epi8(hi), _mm256_sign_epi8(a.hi, hi))};
}
#endif

}  // namespace quire::QUIRE_ISA
