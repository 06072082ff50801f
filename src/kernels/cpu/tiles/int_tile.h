// The inner product of integer kinds: a tile of kRows rows x kStrips strips over a chunk of K.
//
// float(i) * scale without a conversion: the dot products start from the bits of 1.5 * 2^23, so
// that the int32 sum, read as a float, is 1.5 * 2^23 + i (|i| < 2^22). Then fma(that, scale, -1.5 *
// 2^23 * scale) is i * scale rounded once: the product is exact in the first term and scale has at
// most 18 significant bits in the second.
#pragma once

#include "kernels/cpu/tiles/output.h"
#include "kernels/cpu/tiles/packed_group.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kHeadStride = 32;  // groups of the longest chunk
// kHeadStride from row to row (kHeadStride * parts for start): a tile finds all of its rows by
// constants from one pointer, for want of integer registers.
struct IntRows {
  const int8_t* a;  // at the chunk's first k
  int64_t a_stride;
  const float* scale;  // at the chunk's first group
  const float* sum;
  const int32_t* start;  // [row][group * parts], kMagicBits - zero * sum(a)
};

// Unpacked groups in a scratch, two strips side by side: codes as bytes, scales as f32.
template <bool wide, int parts, bool has_min, int dot_zero>
struct UnpackedTraits {
  static constexpr bool kWide = wide, kHasMin = has_min;
  static constexpr int kParts = parts, kDotZero = dot_zero;
};
inline constexpr int kScratchStrips = 2;
template <class TraitsOf>
struct UnpackedSource {
  using T = TraitsOf;
  const uint8_t* codes;   // [group][strip][8][64]
  const float* scales;    // [group][strip][parts][16]
  const float* minimums;  // [group][strip][16]
  const float* offsets;   // as scales
  FetchAhead ahead;
  QUIRE_INLINE UnpackedSource strip(int s) const {
    return {codes + s * 512, scales + s * T::kParts * 16, minimums + s * 16,
            offsets + s * T::kParts * 16, ahead};
  }
  struct Group {
    const uint8_t* codes;
    const float* scales;
    const float* minimums;
    const float* offsets;
    QUIRE_INLINE U8 quad(int j) const { return load_u8(codes + 64 * j); }
    QUIRE_INLINE F32 scale(int part) const { return load(scales + 16 * part); }
    QUIRE_INLINE F32 offset(int part) const { return load(offsets + 16 * part); }
    QUIRE_INLINE F32 minimum() const { return load(minimums); }
  };
  QUIRE_INLINE Group at(int64_t g, int strip) const {
    const int64_t i = g * kScratchStrips + strip;
    return {codes + i * 512, scales + i * T::kParts * 16, minimums + i * 16,
            offsets + i * T::kParts * 16};
  }
  QUIRE_INLINE void start_group(int64_t g) const { ahead.fetch(g); }
};

// kSide strips share each broadcast of activations, and hold their int32 sums at once. Registers:
//
//   6 rows, kSide = kStrips = 2: 12 f32 + 12 int32 sums, 2 codes, 1 broadcast, 4 scales = 31
//
//   6 rows, kSide = 1, kStrips = 4: 24 f32 + 6 int32 sums, 1 code or scale, 1 broadcast = 32
//
// Ports 0 and 5, per group and output vector: 8 vpdpbusd + 2 fma (3 with a minimum), so at most
// 0.80 (0.73) of the peak.
template <class Source, int kRows, int kStrips, int kSide>
QUIRE_INLINE void int_tile(const Source& source, const IntRows& rows, int64_t groups,
                           const TileOutput& out) {
  using T = typename Source::T;
  constexpr int kQuads = 8 / T::kParts;
  F32 sums[kRows][kStrips];
  start_sums(out, sums);
  for (int64_t g = 0; g < groups; ++g) {
    source.start_group(g);
    const int8_t* a = rows.a + 32 * g;
    QUIRE_UNROLL for (int first = 0; first < kStrips; first += kSide) {
      if constexpr (kSide < kStrips) forget_loads();
      QUIRE_UNROLL for (int part = 0; part < T::kParts; ++part) {
        I32 dots[kRows][kSide];
        QUIRE_UNROLL for (int r = 0; r < kRows; ++r) QUIRE_UNROLL for (int s = 0; s < kSide; ++s)
            dots[r][s] = set1_i32(T::kDotZero ? rows.start[(r * kHeadStride + g) * T::kParts + part]
                                              : kMagicBits);
        QUIRE_UNROLL for (int i = part * kQuads; i < (part + 1) * kQuads; ++i) {
          // Quads 0, 4, 1, 5, ...: two that share the bytes of their nibbles.
          const int j = T::kParts == 1 ? i / 2 + i % 2 * 4 : i;
          U8 codes[kSide];
          QUIRE_UNROLL for (int s = 0; s < kSide; ++s) codes[s] = source.at(g, first + s).quad(j);
          QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
            const U8 x = quad(a + r * rows.a_stride + 4 * j);
            QUIRE_UNROLL for (int s = 0; s < kSide; ++s) dots[r][s] =
                T::kWide ? dot_byte(dots[r][s], codes[s], x) : dot_small(dots[r][s], codes[s], x);
          }
        }
        QUIRE_UNROLL for (int s = 0; s < kSide; ++s) {
          const auto group = source.at(g, first + s);
          const F32 scale = group.scale(part), offset = group.offset(part);
          QUIRE_UNROLL for (int r = 0; r < kRows; ++r) sums[r][first + s] =
              fma(fma(as_f32(dots[r][s]), scale, offset), set1(rows.scale[r * kHeadStride + g]),
                  sums[r][first + s]);
        }
      }
      if constexpr (T::kHasMin) {
        QUIRE_UNROLL for (int s = 0; s < kSide; ++s) {
          const F32 minimum = source.at(g, first + s).minimum();
          QUIRE_UNROLL for (int r = 0; r < kRows; ++r) sums[r][first + s] =
              fma(minimum, set1(rows.sum[r * kHeadStride + g]), sums[r][first + s]);
        }
      }
    }
  }
  finish_sums(out, sums);
}

}  // namespace quire::QUIRE_ISA
