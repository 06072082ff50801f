// The inner product of integer kinds: a tile of kRows rows x kStrips strips over a chunk of K.
//
// float(i) * scale without a conversion: the dot products start from the bits of 1.5 * 2^23, so
// that the int32 sum, read as a float, is 1.5 * 2^23 + i (|i| < 2^22). Then fma(that, scale, -1.5 *
// 2^23 * scale) is i * scale rounded once: the product is exact in the first term and scale has at
// most 18 significant bits in the second. Where additions have ports of their own (kDirectIsFree),
// 1.5 * 2^23 is subtracted instead, which is exact: a multiplication less, and the same bits but
// for the sign of a zero, which no sum that begins at +0 shows.
#pragma once

#include "kernels/cpu/tiles/output.h"
#include "kernels/cpu/tiles/packed_group.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kHeadStride = 32;  // groups of the longest chunk
// Rows where they lie: kHeadStride from row to row (kHeadStride * parts for sums and starts), so
// that a tile finds all of its rows by constants from one pointer, for want of integer registers.
struct IntRows {
  const int8_t* a;  // at the chunk's first k
  int64_t a_stride;
  const float* scales;    // at the chunk's first group
  const float* sums;      // [row][group * parts]
  const int32_t* starts;  // [row][group * parts], kMagicBits - zero * sum(a)
  template <int kParts>
  struct Group {
    const IntRows& rows;
    int64_t g;
    QUIRE_INLINE U8 quad_at(int r, int j) const {
      return quad(rows.a + r * rows.a_stride + 32 * g + 4 * j);
    }
    QUIRE_INLINE float scale(int r) const { return rows.scales[r * kHeadStride + g]; }
    QUIRE_INLINE float sum(int r, int part) const {
      return rows.sums[(r * kHeadStride + g) * kParts + part];
    }
    QUIRE_INLINE int32_t start(int r, int part) const {
      return rows.starts[(r * kHeadStride + g) * kParts + part];
    }
  };
  template <int kParts>
  QUIRE_INLINE Group<kParts> at(int64_t g) const {
    return {*this, g};
  }
};
// Rows that were gathered: what a tile of up to kMost rows reads of one group, side by side.
template <int kMost, int kParts, bool kHasMin>
struct RowsGroup {
  int8_t codes[kMost][32];
  int32_t starts[kMost][kParts];
  float scales[kMost];
  float sums[kHasMin ? kMost : 1][kParts];
  QUIRE_INLINE U8 quad_at(int r, int j) const { return quad(codes[r] + 4 * j); }
  QUIRE_INLINE float scale(int r) const { return scales[r]; }
  QUIRE_INLINE float sum(int r, int part) const { return sums[r][part]; }
  QUIRE_INLINE int32_t start(int r, int part) const { return starts[r][part]; }
};
template <class Group>
struct GatheredRows {
  const Group* groups;
  template <int>
  QUIRE_INLINE const Group& at(int64_t g) const {
    return groups[g];
  }
};

// Unpacked groups in a scratch, two strips side by side: codes as bytes, scales as f32.
template <bool dots_bytes, int parts, bool has_min, int dot_zero>
struct UnpackedTraits {
  static constexpr bool kDotsBytes = dots_bytes, kHasMin = has_min;
  static constexpr int kParts = parts, kDotZero = dot_zero;
};
inline constexpr int kScratchStrips = 2;
template <class TraitsOf>
struct UnpackedSource {
  using T = TraitsOf;
  const uint8_t* codes;   // [group][strip][8][64]
  const float* scales;    // [group][strip][parts][16]
  const float* minimums;  // as scales
  const float* offsets;   // as scales
  FetchAhead ahead;
  QUIRE_INLINE UnpackedSource strip(int s) const {
    return {codes + s * 512, scales + s * T::kParts * 16, minimums + s * T::kParts * 16,
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
    QUIRE_INLINE F32 minimum(int part) const { return load(minimums + 16 * part); }
  };
  QUIRE_INLINE Group at(int64_t g, int strip) const {
    const int64_t i = g * kScratchStrips + strip;
    return {codes + i * 512, scales + i * T::kParts * 16, minimums + i * T::kParts * 16,
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
template <class Source, int kRows, int kStrips, int kSide, class Rows>
QUIRE_INLINE void int_tile(const Source& source, const Rows& rows, int64_t groups,
                           const TileOutput& out) {
  using T = typename Source::T;
  constexpr int kQuads = 8 / T::kParts;
  // Kinds with a minimum or two scales have enough work on those ports already.
  constexpr bool kSubtracts = kDirectIsFree && !T::kHasMin && T::kParts == 1;
  F32 sums[kRows][kStrips];
  start_sums(out, sums);
  for (int64_t g = 0; g < groups; ++g) {
    source.start_group(g);
    const auto& row = rows.template at<T::kParts>(g);
    QUIRE_UNROLL for (int first = 0; first < kStrips; first += kSide) {
      if constexpr (kSide < kStrips) forget_loads();
      QUIRE_UNROLL for (int part = 0; part < T::kParts; ++part) {
        I32 dots[kRows][kSide];
        QUIRE_UNROLL for (int r = 0; r < kRows; ++r) QUIRE_UNROLL for (int s = 0; s < kSide; ++s)
            dots[r][s] = set1_i32(T::kDotZero ? row.start(r, part) : kMagicBits);
        QUIRE_UNROLL for (int i = part * kQuads; i < (part + 1) * kQuads; ++i) {
          // Quads 0, 4, 1, 5, ...: two that share the bytes of their nibbles.
          const int j = T::kParts == 1 ? i / 2 + i % 2 * 4 : i;
          U8 codes[kSide];
          QUIRE_UNROLL for (int s = 0; s < kSide; ++s) codes[s] = source.at(g, first + s).quad(j);
          QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
            const U8 x = row.quad_at(r, j);
            QUIRE_UNROLL for (int s = 0; s < kSide; ++s) dots[r][s] =
                T::kDotsBytes ? dot_byte(dots[r][s], codes[s], x)
                              : dot_small(dots[r][s], codes[s], x);
          }
        }
        QUIRE_UNROLL for (int s = 0; s < kSide; ++s) {
          const auto group = source.at(g, first + s);
          const F32 scale = group.scale(part);
          QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
            const F32 magic = as_f32(dots[r][s]);
            const F32 scaled = kSubtracts ? mul(sub(magic, set1(kMagic)), scale)
                                          : fma(magic, scale, group.offset(part));
            sums[r][first + s] = fma(scaled, set1(row.scale(r)), sums[r][first + s]);
          }
        }
        if constexpr (T::kHasMin) {
          QUIRE_UNROLL for (int s = 0; s < kSide; ++s) {
            const F32 minimum = source.at(g, first + s).minimum(part);
            QUIRE_UNROLL for (int r = 0; r < kRows; ++r) sums[r][first + s] =
                fma(minimum, set1(row.sum(r, part)), sums[r][first + s]);
          }
        }
      }
    }
  }
  finish_sums(out, sums);
}

}  // namespace quire::QUIRE_ISA
