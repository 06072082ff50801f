// What tiles of integer kinds read: packed weights that they unpack in registers, or an unpacked
// scratch; with sizes and places that all loops around int_tile share.
#pragma once

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/tiles/int_tile.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kRowBlock = 96;     // rows that share an unpacked chunk
inline constexpr int64_t kChunkGroups = 16;  // 512 k: 16 KB of codes for two strips, half of L1

inline constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// A panel and where its columns of C begin.
struct Panel {
  const uint8_t* base;
  int64_t strips, column, units;
};
template <int kUnitBytes>
QUIRE_INLINE Panel panel_at(const MatmulArgs& args, int64_t panel, int64_t units) {
  const int64_t all = (args.shape.n + 15) / 16;
  return {reinterpret_cast<const uint8_t*>(args.weights) + 4 * panel * units * kUnitBytes,
          smaller(4, all - 4 * panel), 64 * panel, units};
}
QUIRE_INLINE TileOutput output_at(const MatmulArgs& args, int64_t row, int64_t column, float* carry,
                                  bool first, bool last) {
  return {args.c + row * args.ldc + column,
          args.ldc,
          args.bias ? args.bias + column : nullptr,
          args.shape.n - column,
          carry,
          args.accumulate,
          first,
          last};
}
// How many rows the next tile takes, so that tiles are even: 8 rows are 4 + 4, not 6 + 2.
QUIRE_INLINE int64_t even_rows(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

// Ways to multiply: what tiles read, and their sizes. kFewStrips is the width of tiles for blocks
// of up to kFewRows rows, which have no more than kFewTileRows each; kManyStrips that of others,
// whose tiles have kManyTileRows at least.

// Intel's processors fetch a single stream at some two thirds of the rate that they reach when they
// are asked for what lies so many bytes ahead (17 in place of 11 GB/s to one thread). Integer kinds
// do so for those processors, bf16_widened.h, which AMD's with AVX-512 do not need, everywhere.
#ifdef QUIRE_SHARED_PORTS
inline constexpr bool kFetchesStream = true;
#else
inline constexpr bool kFetchesStream = false;
#endif
inline constexpr int64_t kStreamAhead = 4096;

// Tiles read the packed weights.
//
// What a tile of few rows waits for is memory. It comes at its full rate to a tile as wide as the
// panel, which goes from strip to strip and so reads one stream that the processor fetches ahead by
// itself: 30 GB/s to one thread, where prefetch instructions for tiles of two strips bring 14 to 17
// (their misses share some two dozen buffers). So 8-bit and 5-bit codes are multiplied in such
// tiles for up to two tiles of rows: 6 rows x 4 strips, one strip at a time, are 24 f32 + 6 int32
// sums, 1 code and 1 scale of 32 registers. Nibbles are compute-bound from three rows on.
template <PackedKind kind>
struct DirectWay {
  using T = Traits<kind>;
  using Source = PackedSource<kind>;
  static constexpr bool kZmm = kVectorRegisters >= 32;
  static constexpr bool kPlanes =
      T::kSix || T::kPairs || (T::kFive && T::kTwoLevel);  // take many registers
  static constexpr bool kSixRows = kHasVnni && !kPlanes;
  // Whether blocks of any number of rows unpack as they go, or so many at most.
  static constexpr bool kFree = kSixRows && (kDirectIsFree || T::kWide);
  static constexpr int64_t kMostDirect = !kSixRows || T::kGroups > 1 ? 0 : T::kFive ? 8 : 24;
  // More rows are blocks: int_block.h.
  static constexpr int64_t kMostWalked = !kZmm                         ? 2
                                         : !kSixRows || T::kGroups > 1 ? 16
                                         : T::kFive                    ? 3
                                         : T::kWide                    ? 6
                                                                       : 8;
  static constexpr int kTileRows = !kZmm ? 2 : kSixRows ? 6 : 4;
  static constexpr bool kManyBytes = T::kGroups == 1 && (T::kWide || T::kFive);
  static constexpr int kFewStrips = kZmm ? 4 : 1, kManyStrips = kZmm ? 2 : 1;
  static constexpr int64_t kFewRows = kManyBytes ? 2 * kTileRows : 2;
  static constexpr int kFewTileRows = kManyBytes ? kTileRows : 2, kManyTileRows = kTileRows / 2;
  // Groups of a chunk: 16 to 20 KB, for units of several groups no more than 16 groups.
  static constexpr int64_t groups(int64_t wide) {
    const bool doubled = wide <= 2 && T::kGroups == 1, small = T::kUnitBytes / T::kGroups <= 320;
    return 8 * (doubled ? 2 : 1) * (small ? 2 : 1);
  }
  // Of a chunk of many rows: 20 KB of two strips.
  static constexpr int64_t kBlockGroups = 10000 / (T::kUnitBytes / T::kGroups);
  // Units of one group, read by tiles as wide as the panel.
  static constexpr bool kStream = T::kGroups == 1;

  QUIRE_INLINE Source source(const Source& packed, int64_t, int64_t) { return packed; }
  // Strips that are fewer than kWide are done one by one.
  template <int kRows, int kWide, class Rows>
  static void tile(Source source, int64_t strips, const Rows& rows, int64_t groups,
                   TileOutput out) {
    constexpr int kSide = kWide == 2 ? 2 : 1;
    if (strips == kWide) return int_tile<Source, kRows, kWide, kSide>(source, rows, groups, out);
    for (int64_t s = 0; s < strips; ++s) {
      int_tile<Source, kRows, 1, 1>(source, rows, groups, out);
      source.base += T::kUnitBytes;
      out = strips_right(out, 1);
    }
  }
};

template <class T, int64_t kMostGroups = kChunkGroups>
struct IntScratch {
  static constexpr int64_t kSlots = kMostGroups * kScratchStrips;
  alignas(64) uint8_t codes[kSlots * 512];
  alignas(64) float scales[kSlots * T::kParts * 16];
  alignas(64) float offsets[kSlots * T::kParts * 16];  // -kMagic * scale
  alignas(64) float minimums[T::kHasMin ? kSlots * T::kParts * 16 : 16];
};

// Tiles read a chunk of two strips that has been unpacked.
template <PackedKind kind>
struct UnpackedWay {
  using K = Traits<kind>;
  using T = UnpackedTraits<K::kDotsBytes, K::kParts, K::kHasMin, K::kDotZero>;
  using Source = UnpackedSource<T>;
  // See int_tile for the zmm registers. ymm: 3 x 1 takes 6 + 6 of 16.
  static constexpr int kTileRows = kVectorRegisters >= 32 ? 6 : 3;
  static constexpr int kTileStrips = kVectorRegisters >= 32 ? 2 : 1;
  static constexpr int kManyStrips = kScratchStrips;
  static constexpr int64_t kBlockGroups = kChunkGroups;

  IntScratch<T> scratch;

  QUIRE_INLINE Source source(const PackedSource<kind>& packed, int64_t groups, int64_t strips) {
    for (int64_t g = 0; g < groups; ++g) {
      for (int s = 0; s < strips; ++s) {
        const PackedGroup<kind> group = packed.at(g, s);
        const int64_t i = g * kScratchStrips + s;
        QUIRE_UNROLL for (int j = 0; j < 8; ++j)
            store_u8(scratch.codes + i * 512 + 64 * j, group.quad(j));
        for (int part = 0; part < T::kParts; ++part) {
          const F32 scale = group.scale(part);
          store(scratch.scales + (i * T::kParts + part) * 16, scale);
          store(scratch.offsets + (i * T::kParts + part) * 16, mul(scale, set1(-kMagic)));
          if constexpr (T::kHasMin)
            store(scratch.minimums + (i * T::kParts + part) * 16, group.minimum(part));
        }
      }
    }
    return {scratch.codes, scratch.scales, scratch.minimums, scratch.offsets, {}};
  }
  template <int kRows, int kWide, class Rows>
  static void tile(const Source& source, int64_t strips, const Rows& rows, int64_t groups,
                   const TileOutput& out) {
    if (strips == 2 && kTileStrips == 2)
      return int_tile<Source, kRows, kTileStrips, kTileStrips>(source, rows, groups, out);
    for (int s = 0; s < strips; ++s)
      int_tile<Source, kRows, 1, 1>(source.strip(s), rows, groups, strips_right(out, s));
  }
};

}  // namespace quire::QUIRE_ISA
