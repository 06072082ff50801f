// Vector access to the integer kinds of packed.h: one group of 32 k of one strip.
#pragma once

#include "kernels/cpu/packed.h"
#include "kernels/cpu/tiles/unroll.h"

namespace quire::QUIRE_ISA {

inline constexpr int32_t kMagicBits = 0x4B400000;  // 1.5 * 2^23 as f32
inline constexpr float kMagic = 12582912.0f;

template <PackedKind kind>
struct Traits {
  static constexpr bool kIq4 = kind == PackedKind::kIq4Nl || kind == PackedKind::kIq4Xs;
  static constexpr bool kTwo = kind == PackedKind::kQ2K, kThree = kind == PackedKind::kQ3K;
  static constexpr bool kPairs = kTwo || kThree;  // two bits of each code side by side
  static constexpr bool kTwoLevel = kPairs || kind == PackedKind::kQ4K ||
                                    kind == PackedKind::kQ5K || kind == PackedKind::kQ6K ||
                                    kind == PackedKind::kIq4Xs;
  static constexpr bool kFive =
      kind == PackedKind::kQ5Sym || kind == PackedKind::kQ5Min || kind == PackedKind::kQ5K;
  static constexpr bool kSix = kind == PackedKind::kQ6K;
  static constexpr bool kMx = kind == PackedKind::kMx4;
  static constexpr bool kG4 = is_g4_kind(kind), kG8 = is_g8_kind(kind);
  static constexpr bool kZeroPoint = kG4 || kG8;  // one scale and zero point per unit
  static constexpr bool kWide = kind == PackedKind::kQ8 || kG8;  // 8-bit codes
  static constexpr bool kDotsBytes = kWide || kIq4;              // dot_byte, not dot_small
  static constexpr bool kHasMin = kTwo || kind == PackedKind::kQ4Min ||
                                  kind == PackedKind::kQ5Min || kind == PackedKind::kQ4K ||
                                  kind == PackedKind::kQ5K || kG8;
  static constexpr int kParts = kSix || kPairs ? 2 : 1;  // scales and minimums per group
  // What the dot products of a group must start from, times -sum(a).
  static constexpr int kDotZero = kDotsBytes                   ? kByteZero
                                  : kind == PackedKind::kQ4Sym ? 8
                                  : kind == PackedKind::kQ5Sym ? 16
                                  : kThree                     ? 4
                                  : kSix                       ? 32
                                  : kMx                        ? 12
                                  : kG4                        ? 16
                                                               : 0;
  static constexpr int kCodeZero = kDotsBytes ? 128 : kDotZero;
  static constexpr int kGroups = kTwoLevel ? 8  // per unit
                                 : kind == PackedKind::kG4x64 || kind == PackedKind::kG8x64   ? 2
                                 : kind == PackedKind::kG4x128 || kind == PackedKind::kG8x128 ? 4
                                 : kind == PackedKind::kG4x256 || kind == PackedKind::kG8x256 ? 8
                                                                                              : 1;
  // Of the unit's head: f16 numbers, then zero points, or the scales of kinds of pairs.
  static constexpr int kHalves = kZeroPoint ? 32 : !kTwoLevel ? 0 : kHasMin ? 64 : 32;
  static constexpr int kHead = kHalves + (kZeroPoint ? 16 : kTwo ? 256 : kThree ? 192 : 0);
  static constexpr int kScales = kWide    ? 512  // offset in a group
                                 : kFive  ? 320
                                 : kSix   ? 384
                                 : kThree ? 192
                                 : kTwo   ? 128
                                          : 256;
  static constexpr int kGroupBytes = kScales + (kZeroPoint || kPairs    ? 0
                                                : kMx                   ? 16
                                                : kTwoLevel && kIq4     ? 16
                                                : kTwoLevel || !kHasMin ? 32
                                                                        : 64);
  static constexpr int kUnitBytes = kHead + kGroups * kGroupBytes;
};

// E2M1 by its number, doubled, plus 12.
alignas(16) inline constexpr uint8_t kFp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                      12, 11, 10, 9,  8,  6,  4,  0};

// IQ4's levels plus 128.
alignas(16) inline constexpr uint8_t kIq4Codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                      129, 141, 153, 166, 181, 197, 217, 241};

template <PackedKind kind>
struct PackedGroup {
  using T = Traits<kind>;
  const uint8_t* unit;
  const uint8_t* group;
  int number;  // of the group inside the unit

  // The codes of quad j (k = 4 j .. 4 j + 3) as unsigned bytes.
  QUIRE_INLINE U8 quad(int j) const {
    if constexpr (T::kWide) return load_u8(group + 64 * j);
    if constexpr (T::kPairs) {
      const U8 low = bit_and(shr32(load_u8(group + 64 * (j / 4)), 2 * (j % 4)), set1_u8(3));
      if constexpr (T::kTwo) return low;
      const U8 plane = load_u8(group + 128);  // bit j to bit 2
      return bit_or(low, bit_and(j < 2 ? shl32(plane, 2 - j) : shr32(plane, j - 2), set1_u8(4)));
    }
    const U8 pairs = load_u8(group + 64 * (j % 4));
    const U8 q = bit_and(j < 4 ? pairs : shr32(pairs, 4), set1_u8(15));
    if constexpr (T::kFive) {  // bit j of the plane to bit 4
      const U8 plane = load_u8(group + 256);
      return bit_or(q, bit_and(j < 4 ? shl32(plane, 4 - j) : shr32(plane, j - 4), set1_u8(16)));
    }
    if constexpr (T::kSix) {  // bits 2 (j % 4).. of plane j / 4 to bits 4-5
      const U8 plane = load_u8(group + 256 + 64 * (j / 4));
      const int at = 2 * (j % 4);
      return bit_or(q, bit_and(at <= 4 ? shl32(plane, 4 - at) : shr32(plane, at - 4), set1_u8(48)));
    }
    if constexpr (T::kMx) return lookup(kFp4Codes, q);
    if constexpr (T::kIq4) return lookup(kIq4Codes, q);
    if constexpr (T::kG4) return as_bytes(add(as_lanes(q), above_zero()));  // no byte overflows
    return q;
  }
  // 16 - zero, which is 0 and more, in the four bytes of each lane: q becomes q - zero + 16.
  QUIRE_INLINE I32 above_zero() const {
    const I32 one = sub(set1_i32(16), round_i32(from_u8(unit + 32)));
    const I32 two = bit_or(one, shl<8>(one));
    return bit_or(two, shl<16>(two));
  }
  // The scale of k [16 part, 16 part + 16) (of all 32 where kParts is 1).
  QUIRE_INLINE F32 scale(int part) const {
    const uint8_t* scales = group + T::kScales;
    if constexpr (T::kMx) return power(scales);
    if constexpr (T::kZeroPoint) return load_f16(halves(unit));
    if constexpr (T::kSix || (T::kIq4 && T::kTwoLevel))
      return mul(load_f16(halves(unit)),
                 from_i8(reinterpret_cast<const int8_t*>(scales) + 16 * part));
    if constexpr (T::kTwo) return mul(load_f16(halves(unit)), to_f32(four_bits(unit + 64, part)));
    if constexpr (T::kThree) {
      const I32 high = bits_of(unit + 160, 2 * (2 * number + part), 3);
      const I32 six = bit_or(four_bits(unit + 32, part), shl<4>(high));
      return mul(load_f16(halves(unit)), to_f32(sub(six, set1_i32(32))));
    }
    if constexpr (T::kTwoLevel) return mul(load_f16(halves(unit)), from_u8(scales));
    return load_f16(halves(scales));
  }
  // What takes kMagic out of a sum of products times scale; see int_tile.h.
  QUIRE_INLINE F32 offset(int part) const { return mul(scale(part), set1(-kMagic)); }
  QUIRE_INLINE F32 minimum(int part) const {
    const uint8_t* scales = group + T::kScales;
    if constexpr (T::kTwo) {
      const F32 m = to_f32(four_bits(unit + 192, part));
      return sub(zero(), mul(load_f16(halves(unit + 32)), m));
    }
    if constexpr (T::kG8) return mul(load_f16(halves(unit)), sub(set1(128.0f), from_u8(unit + 32)));
    if constexpr (T::kTwoLevel)
      return sub(zero(), mul(load_f16(halves(unit + 32)), from_u8(scales + 16)));
    return load_f16(halves(scales + 32));
  }
  // 2^(e - 128) for e of 2 and more, 0 for 1.
  static QUIRE_INLINE F32 power(const uint8_t* e) {
    return as_f32(shl<23>(sub(round_i32(from_u8(e)), set1_i32(1))));
  }
  // Bits of one word per lane.
  static QUIRE_INLINE I32 bits_of(const uint8_t* words, int at, int mask) {
    return bit_and(as_lanes(shr32(load_u8(words), at)), set1_i32(mask));
  }
  // Those of a part among the unit's sixteen, in two words per lane.
  QUIRE_INLINE I32 four_bits(const uint8_t* words, int part) const {
    return bits_of(words + number / 4 * 64, 8 * (number % 4) + 4 * part, 15);
  }
  static QUIRE_INLINE const uint16_t* halves(const uint8_t* p) {
    return reinterpret_cast<const uint16_t*>(p);
  }
};

// Groups of one panel as they lie in memory.
template <PackedKind kind>
struct PackedSource {
  using T = Traits<kind>;
  const uint8_t* base;  // unit 0 of the first strip wanted
  int64_t unit_stride;  // strips of the panel * kUnitBytes
  FetchAhead ahead;
  QUIRE_INLINE PackedGroup<kind> at(int64_t g, int strip) const {
    const uint8_t* unit = base + g / T::kGroups * unit_stride + strip * T::kUnitBytes;
    const int64_t number = g % T::kGroups;
    return {unit, unit + T::kHead + number * T::kGroupBytes, static_cast<int>(number)};
  }
  QUIRE_INLINE void start_group(int64_t g) const { ahead.fetch(g); }
};

}  // namespace quire::QUIRE_ISA
