// Matrix products of integer kinds with int8 activations: the loops around int_tile.
//
// Few rows: tiles read the packed weights themselves, four strips wide, one stream per panel. More
// rows: a chunk of K of two strips is unpacked once into a scratch that stays in L1 and serves a
// block of rows. Between chunks of K the sums wait in a carry buffer: an exact copy, so chunks
// never change a bit.
#pragma once

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/tiles/int_tile.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kRowBlock = 96;     // rows that share an unpacked chunk
inline constexpr int64_t kChunkGroups = 24;  // 768 k: 24 KB of codes for two strips
inline constexpr int64_t kDirectRows = 2;    // up to here tiles read packed weights
inline constexpr int64_t kDirectGroups = 128;
// Tile of the unpacked path; see int_tile for the zmm registers. ymm: 3 x 1 takes 6 + 6 of 16.
inline constexpr int kIntTileRows = kVectorRegisters >= 32 ? 6 : 3;
inline constexpr int kIntTileStrips = kVectorRegisters >= 32 ? 2 : 1;

inline constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The geometry of one call, in groups of 32 k.
struct IntShape {
  int64_t groups, strips;
};

// A panel and where its columns of C begin.
struct Panel {
  const uint8_t* base;
  int64_t strips, column;
};
template <int kUnitBytes>
QUIRE_INLINE Panel panel_at(const MatmulArgs& args, int64_t panel, int64_t units) {
  const int64_t all = (args.shape.n + 15) / 16;
  return {reinterpret_cast<const uint8_t*>(args.weights) + 4 * panel * units * kUnitBytes,
          smaller(4, all - 4 * panel), 64 * panel};
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

// start[r][g * parts + part] = kMagicBits - zero * (sum of a over the part)
template <class T>
QUIRE_INLINE void fill_start(const MatmulArgs& args, int64_t row, int64_t rows, int64_t group,
                             int64_t groups, int32_t* start, int64_t start_stride) {
  if constexpr (T::kDotZero != 0) {
    for (int64_t r = 0; r < rows; ++r) {
      const int32_t* isum = args.a_isum + (row + r) * 2 * args.scale_stride + 2 * group;
      int32_t* out = start + r * start_stride;
      for (int64_t g = 0; g < groups; ++g) {
        if constexpr (T::kParts == 2) {
          out[2 * g] = kMagicBits - T::kDotZero * isum[2 * g];
          out[2 * g + 1] = kMagicBits - T::kDotZero * isum[2 * g + 1];
        } else {
          out[g] = kMagicBits - T::kDotZero * (isum[2 * g] + isum[2 * g + 1]);
        }
      }
    }
  }
}

QUIRE_INLINE IntRows rows_at(const MatmulArgs& args, int64_t row, int64_t group,
                             const int32_t* start, int64_t start_stride) {
  const int64_t at = row * args.scale_stride + group;
  return {static_cast<const int8_t*>(args.a) + row * args.a_stride + 32 * group,
          args.a_stride,
          args.a_scale + at,
          args.a_sum + at,
          args.scale_stride,
          start,
          start_stride};
}

// ---- few rows

template <PackedKind kind, int kRows>
void int_direct(const MatmulArgs& args) {
  using T = Traits<kind>;
  constexpr int64_t kStartStride = kDirectGroups * T::kParts;
  constexpr int kWideTile = kRows * 4 + kRows + 6 <= kVectorRegisters ? 4 : 1;
  alignas(64) int32_t start[T::kDotZero ? kRows * kStartStride : 1];
  alignas(64) float carry[kRows * kCarryStride];
  const int64_t groups = (args.shape.k + 32 * T::kGroups - 1) / (32 * T::kGroups) * T::kGroups;
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<T::kUnitBytes>(args, p, groups / T::kGroups);
    for (int64_t g = 0; g < groups; g += kDirectGroups) {
      const int64_t count = smaller(kDirectGroups, groups - g);
      const bool first = g == 0, last = g + count == groups;
      fill_start<T>(args, 0, kRows, g, count, start, kStartStride);
      const IntRows rows = rows_at(args, 0, g, start, kStartStride);
      const int64_t unit_stride = panel.strips * T::kUnitBytes;
      const uint8_t* base = panel.base + g / T::kGroups * unit_stride;
      int64_t s = 0;
      for (; s + kWideTile <= panel.strips; s += kWideTile) {
        const PackedSource<kind> source{base + s * T::kUnitBytes, unit_stride};
        int_tile<PackedSource<kind>, kRows, kWideTile, 1>(
            source, rows, count,
            output_at(args, 0, panel.column + 16 * s, carry + 16 * s, first, last));
      }
      for (; s < panel.strips; ++s) {
        const PackedSource<kind> source{base + s * T::kUnitBytes, unit_stride};
        int_tile<PackedSource<kind>, kRows, 1, 1>(
            source, rows, count,
            output_at(args, 0, panel.column + 16 * s, carry + 16 * s, first, last));
      }
    }
  }
}

// ---- more rows

template <class T>
struct IntScratch {
  alignas(64) uint8_t codes[kChunkGroups * kScratchStrips * 512];
  alignas(64) float scales[kChunkGroups * kScratchStrips * T::kParts * 16];
  alignas(64) float minimums[T::kHasMin ? kChunkGroups * kScratchStrips * 16 : 16];
};

template <PackedKind kind, class T>
QUIRE_INLINE void unpack(const PackedSource<kind>& source, int64_t groups, int strips,
                         IntScratch<T>* scratch) {
  for (int64_t g = 0; g < groups; ++g) {
    for (int s = 0; s < strips; ++s) {
      const PackedGroup<kind> group = source.at(g, s);
      const int64_t i = g * kScratchStrips + s;
      QUIRE_UNROLL for (int j = 0; j < 8; ++j)
          store_u8(scratch->codes + i * 512 + 64 * j, group.quad(j));
      for (int part = 0; part < T::kParts; ++part)
        store(scratch->scales + (i * T::kParts + part) * 16, group.scale(part));
      if constexpr (T::kHasMin) store(scratch->minimums + i * 16, group.minimum());
    }
  }
}

template <class T, int kRows>
void int_unpacked_tile(const UnpackedSource<T>& source, const IntRows& rows, int64_t groups,
                       int strips, const TileOutput& out) {
  if (strips == 2 && kIntTileStrips == 2) {
    int_tile<UnpackedSource<T>, kRows, kIntTileStrips, kIntTileStrips>(source, rows, groups, out);
    return;
  }
  for (int s = 0; s < strips; ++s)
    int_tile<UnpackedSource<T>, kRows, 1, 1>(source.strip(s), rows, groups, strips_right(out, s));
}

// How many rows the next tile takes, so that tiles are even: 8 rows are 4 + 4, not 6 + 2.
QUIRE_INLINE int64_t even_rows(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

template <PackedKind kind>
void int_blocked(const MatmulArgs& args) {
  using K = Traits<kind>;
  using T = UnpackedTraits<K::kWide, K::kParts, K::kHasMin, K::kDotZero>;
  constexpr int64_t kStartStride = kChunkGroups * T::kParts;
  IntScratch<T> scratch;
  alignas(64) int32_t start[T::kDotZero ? kRowBlock * kStartStride : 1];
  alignas(64) float carry[kRowBlock * kCarryStride];
  const int64_t groups = (args.shape.k + 32 * K::kGroups - 1) / (32 * K::kGroups) * K::kGroups;
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<K::kUnitBytes>(args, p, groups / K::kGroups);
    const int64_t unit_stride = panel.strips * K::kUnitBytes;
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      for (int64_t g = 0; g < groups; g += kChunkGroups) {
        const int64_t count = smaller(kChunkGroups, groups - g);
        fill_start<T>(args, row, block, g, count, start, kStartStride);
        for (int64_t s = 0; s < panel.strips; s += kScratchStrips) {
          const int strips = static_cast<int>(smaller(kScratchStrips, panel.strips - s));
          unpack<kind, T>(
              {panel.base + g / K::kGroups * unit_stride + s * K::kUnitBytes, unit_stride}, count,
              strips, &scratch);
          for (int64_t r = 0, tile; r < block; r += tile) {
            tile = even_rows(block - r, kIntTileRows);
            const TileOutput out =
                output_at(args, row + r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s,
                          g == 0, g + count == groups);
            const IntRows rows = rows_at(args, row + r, g, start + r * kStartStride, kStartStride);
            with_rows<1, kIntTileRows>(tile, [&]<int kRows>() {
              int_unpacked_tile<T, kRows>({scratch.codes, scratch.scales, scratch.minimums}, rows,
                                          count, strips, out);
            });
          }
        }
      }
    }
  }
}

template <PackedKind kind>
void int_matmul(const MatmulArgs& args) {
  switch (args.m) {
    case 0:
      return;
    case 1:
      return int_direct<kind, 1>(args);
    case kDirectRows:
      return int_direct<kind, 2>(args);
    default:
      return int_blocked<kind>(args);
  }
}

}  // namespace quire::QUIRE_ISA
