// Weights of integer and float8 kinds as tiles of bf16, a group of 32 k of one strip at a time; in
// f16 arithmetic, which does 32 at once. In numbers (ref/matmul.cpp has it too):
//
//   w16 = f16((code - zero) * s16 [+ m16])     s16, m16: f16(2^8 * scale), f16(2^8 * min)
//   w   = w16 * 2^-8, rounded to bf16, to nearest, halves away from zero
//
// A code becomes f16 in the mantissa of 2^10: 1024 + code, or 1024 + 16 code for a high nibble; the
// subtraction of zero is exact. The bits of w16, shifted right by 3 behind the sign, are a bf16 of
// w16 * 2^-112 (f16 counts its exponent from 2^-15, bf16 from 2^-127), so no exponent is computed:
// tiles have weights times 2^-104. Sums of those would be subnormal, which the tile unit flushes to
// zero, where outputs are below 2^-22; so activations come times kActivationFactor, 2^64, and
// sums are multiplied by 2^40 at the end: |activations| below 2^63, outputs from 2^-86 on.
// Weights below 2^-22 count as zero, those above 2^8 as about 2^8; NaN and infinities among scales
// become numbers of that size. For 512 weights of 4 bits some 100 vector operations, 50 cycles
// (conversion by way of f32 took 130): faster than the memory delivers them to a core.
#pragma once

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/tiles/float8_matmul.h"

namespace quire::QUIRE_ISA {

inline constexpr float kWeightUnscale = 0x1p104f;  // 2^(112 - 8)
inline constexpr float kActivationFactor = 0x1p64f;

// 16 numbers as f16, each twice: for a pair of k of each output.
QUIRE_INLINE __m512h twice_f16(F32 x) {
  const __m512i wide = _mm512_cvtepu16_epi32(narrow_f16(x.v));
  return _mm512_castsi512_ph(_mm512_or_si512(wide, _mm512_slli_epi32(wide, 16)));
}
// What a pair of k is multiplied by.
QUIRE_INLINE __m512h scaled_halves(F32 x) { return twice_f16(mul(x, set1(256.0f))); }
QUIRE_INLINE __m512h halves(int x) { return _mm512_set1_ph(static_cast<_Float16>(x)); }

QUIRE_INLINE __m512i as_bf16(__m512h w) {
  const __m512i rounded = _mm512_add_epi16(_mm512_castph_si512(w), _mm512_set1_epi16(4));
  const __m512i sign_and_rest = _mm512_set1_epi16(static_cast<short>(0x8fff));
  return _mm512_and_si512(_mm512_srai_epi16(rounded, 3), sign_and_rest);
}

// What a group brings besides its codes.
template <bool kHasMin>
struct GroupNumbers {
  __m512h scale, minimum;
  // number: 1024 + code, zero: 1024 + zero.
  QUIRE_INLINE __m512i weights(__m512h number, __m512h zero) const {
    const __m512h code = _mm512_sub_ph(number, zero);
    if constexpr (kHasMin) return as_bf16(_mm512_fmadd_ph(code, scale, minimum));
    return as_bf16(_mm512_mul_ph(code, scale));
  }
};

// Bytes 0 and 1 (2 and 3) of each lane as two words.
QUIRE_INLINE __m512i low_pairs(__m512i quads) {
  return _mm512_shuffle_epi8(quads, _mm512_broadcast_i32x4(_mm_setr_epi8(
                                        0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1)));
}
QUIRE_INLINE __m512i high_pairs(__m512i quads) {
  return _mm512_shuffle_epi8(
      quads, _mm512_broadcast_i32x4(
                 _mm_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1)));
}
// 1024 + the bits of each word that are in the mask.
QUIRE_INLINE __m512h above_1024(__m512i words, int mask) {
  return _mm512_castsi512_ph(_mm512_ternarylogic_epi32(
      words, _mm512_set1_epi16(static_cast<short>(mask)), _mm512_set1_epi16(0x6400), 0xea));
}
QUIRE_INLINE void store_pair(uint8_t* tile, int pair, __m512i weights) {
  _mm512_store_si512(tile + 64 * pair, weights);
}

// Zero points [16] bytes as 1024 + factor * zero.
QUIRE_INLINE __m512h zeros_of(const uint8_t* zero, float factor) {
  return twice_f16(fma(from_u8(zero), set1(factor), set1(1024.0f)));
}

// Kinds of nibbles alone: quad j in the low ones, j + 4 in the high ones of the same bytes.
template <PackedKind kind>
QUIRE_INLINE void unpack_nibbles(const PackedGroup<kind>& group, uint8_t* tile) {
  using T = Traits<kind>;
  GroupNumbers<T::kHasMin> low, high;
  low.scale = scaled_halves(group.scale(0));
  high.scale = _mm512_mul_ph(low.scale, _mm512_set1_ph(static_cast<_Float16>(0.0625f)));
  if constexpr (T::kHasMin) low.minimum = high.minimum = scaled_halves(group.minimum(0));
  __m512h zero = halves(1024 + T::kCodeZero), zero16 = halves(1024 + 16 * T::kCodeZero);
  if constexpr (T::kG4) {
    zero = zeros_of(group.unit + 32, 1.0f);
    zero16 = zeros_of(group.unit + 32, 16.0f);
  }
  QUIRE_UNROLL for (int j = 0; j < 4; ++j) {
    const __m512i bytes = _mm512_loadu_si512(group.group + 64 * j);
    const __m512i first = low_pairs(bytes), second = high_pairs(bytes);
    store_pair(tile, 2 * j, low.weights(above_1024(first, 0x0f), zero));
    store_pair(tile, 2 * j + 1, low.weights(above_1024(second, 0x0f), zero));
    store_pair(tile, 2 * j + 8, high.weights(above_1024(first, 0xf0), zero16));
    store_pair(tile, 2 * j + 9, high.weights(above_1024(second, 0xf0), zero16));
  }
}
// All others: a byte per code.
template <PackedKind kind>
QUIRE_INLINE void unpack_bytes(const PackedGroup<kind>& group, uint8_t* tile) {
  using T = Traits<kind>;
  __m512h zero = halves(1024 + T::kCodeZero);
  if constexpr (T::kG8) zero = zeros_of(group.unit + 32, 1.0f);
  QUIRE_UNROLL for (int part = 0; part < T::kParts; ++part) {
    GroupNumbers<T::kHasMin && !T::kG8> numbers;
    numbers.scale = scaled_halves(group.scale(part));
    if constexpr (T::kHasMin && !T::kG8) numbers.minimum = scaled_halves(group.minimum(part));
    constexpr int kQuads = 8 / T::kParts;
    QUIRE_UNROLL for (int i = 0; i < kQuads; ++i) {
      const int j = part * kQuads + i;
      const __m512i codes = group.quad(j).v;
      store_pair(tile, 2 * j, numbers.weights(above_1024(low_pairs(codes), 0xff), zero));
      store_pair(tile, 2 * j + 1, numbers.weights(above_1024(high_pairs(codes), 0xff), zero));
    }
  }
}
template <PackedKind kind>
[[gnu::noinline]] static void unpack_group(const PackedGroup<kind>& group, uint8_t* tile) {
  using T = Traits<kind>;
  if constexpr (T::kWide || T::kFive || T::kSix || T::kMx || T::kIq4 || T::kPairs)
    unpack_bytes(group, tile);
  else
    unpack_nibbles(group, tile);
}

// 32 k of a float8 unit: codes [16 pairs][16][2]. Exponent and mantissa of e4m3 in their places of
// an f16 are the value times 2^-8, also without an exponent.
[[gnu::noinline]] static void unpack_float8(const uint8_t* codes, const float* scales,
                                            uint8_t* tile) {
  const __m512h scale = scaled_halves(load(scales));
  const __m512i sign_and_rest = _mm512_set1_epi16(static_cast<short>(0xbf80));
  QUIRE_UNROLL for (int i = 0; i < 16; ++i) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + 32 * i));
    const __m512i bits =
        _mm512_and_si512(_mm512_slli_epi16(_mm512_cvtepi8_epi16(bytes), 7), sign_and_rest);
    const __m512h value = _mm512_mul_ph(_mm512_castsi512_ph(bits), halves(256));
    store_pair(tile, i, as_bf16(_mm512_mul_ph(value, scale)));
  }
}

// A panel of one kind, whose steps are unpacked one by one.
template <PackedKind kind>
struct PackedPanel {
  static constexpr bool kPlain = kind == PackedKind::kBF16;  // units only, nothing to unpack
  static constexpr int64_t kUnitK = kPlain                 ? 2
                                    : is_float8_kind(kind) ? kFloat8UnitK<kind>
                                                           : 32 * Traits<kind>::kGroups;
  static constexpr int64_t kUnitBytes = kPlain                 ? 64
                                        : is_float8_kind(kind) ? kFloat8UnitBytes<kind>
                                                               : Traits<kind>::kUnitBytes;
  static constexpr int64_t kUnitSteps = kPlain ? 1 : kUnitK / kStepK;
  static constexpr int64_t kStepBytes = kUnitBytes / kUnitSteps;
  // Strips take turns, so what a step reads is not one stream: fetched ahead by a unit, or by some.
  static constexpr int64_t kUnitsAhead = kUnitSteps > 1 ? 1 : 8;
  const uint8_t* base;
  int64_t unit_stride;

  QUIRE_INLINE PackedPanel right(int64_t strips) const {
    return {base + strips * kUnitBytes, unit_stride};
  }
  QUIRE_INLINE void unpack(int64_t step, int64_t strip, uint8_t* tile) const {
    const uint8_t* unit = base + step / kUnitSteps * unit_stride + strip * kUnitBytes;
    const int64_t inside = step % kUnitSteps;
    const uint8_t* ahead = unit + inside * kStepBytes + kUnitsAhead * unit_stride;
    QUIRE_UNROLL for (int64_t i = 0; i < kStepBytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
    if constexpr (is_float8_kind(kind)) {
      unpack_float8(unit + 64 + inside * 16 * kStepK, reinterpret_cast<const float*>(unit), tile);
    } else {
      using T = Traits<kind>;
      const PackedGroup<kind> group{unit, unit + T::kHead + inside * T::kGroupBytes,
                                    static_cast<int>(inside)};
      unpack_group(group, tile);
    }
  }
};

}  // namespace quire::QUIRE_ISA
