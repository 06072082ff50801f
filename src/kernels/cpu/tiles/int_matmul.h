// Matrix products of integer kinds with int8 activations: the loops around int_tile.
//
// Tiles read the packed weights themselves and unpack them in registers where that costs nothing
// (vpdpbusd keeps two of four vector ports busy) or for few rows. Otherwise a chunk of K of two
// strips is unpacked once into a scratch that serves a block of rows. Either way a chunk stays in
// L1 while tiles of rows pass, and the next chunk is fetched into L2 meanwhile. Between chunks of K
// the sums wait in a carry buffer: an exact copy, so chunks never change a bit.
#pragma once

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/tiles/int_tile.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kRowBlock = 96;     // rows that share an unpacked chunk
inline constexpr int64_t kChunkGroups = 16;  // 512 k: 16 KB of codes for two strips, half of L1
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

template <PackedKind kind>
struct Direct {
  using T = Traits<kind>;
  static constexpr bool kPlanes = T::kFive || T::kSix;  // take registers of their own
  static constexpr bool kFree = kDirectIsFree && !kPlanes;
  static constexpr int64_t kMostRows = kFree ? INT64_MAX : kVectorRegisters < 32 ? 2 : 16;
  static constexpr int kTileRows = kVectorRegisters < 32 ? 2 : kFree ? 6 : 4;
  // Strips of a tile of so many rows; single ones are done one by one.
  static constexpr int strips(int64_t rows) {
    return kVectorRegisters < 32 ? 1 : rows <= 2 ? 4 : 2;
  }
  // Groups of a chunk: 16 to 20 KB, for units of several groups no more than 16 groups.
  static constexpr int64_t groups(int64_t wide) {
    const bool doubled = wide <= 2 && T::kGroups == 1, small = T::kUnitBytes / T::kGroups <= 320;
    return 8 * (doubled ? 2 : 1) * (small ? 2 : 1);
  }
  // A tile as wide as the panel reads units of one group as one stream, which processors fetch
  // ahead by themselves.
  static constexpr bool kStream = T::kGroups == 1;
  static constexpr int64_t kStreamGroups = 128;
};

template <PackedKind kind, int kRows, int kStrips>
QUIRE_INLINE void direct_tile(const PackedSource<kind>& source, const IntRows& rows, int64_t groups,
                              const TileOutput& out) {
  constexpr int kSide = kStrips > 1 && kRows > 2 ? 2 : 1;
  int_tile<PackedSource<kind>, kRows, kStrips, kSide>(source, rows, groups, out);
}

template <PackedKind kind, int kRows>
void direct_strips(PackedSource<kind> source, int64_t strips, const IntRows& rows, int64_t groups,
                   TileOutput out) {
  constexpr int kWide = Direct<kind>::strips(kRows);
  for (int64_t by; strips > 0; strips -= by) {
    by = strips >= kWide ? kWide : 1;
    by == kWide ? direct_tile<kind, kRows, kWide>(source, rows, groups, out)
                : direct_tile<kind, kRows, 1>(source, rows, groups, out);
    source.base += by * Traits<kind>::kUnitBytes;
    out = strips_right(out, by);
  }
}

// How many rows the next tile takes, so that tiles are even: 8 rows are 4 + 4, not 6 + 2.
QUIRE_INLINE int64_t even_rows(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

template <PackedKind kind>
void int_direct(const MatmulArgs& args) {
  using T = Traits<kind>;
  using D = Direct<kind>;
  constexpr int64_t kShared = kRowBlock * D::groups(2), kOne = D::kTileRows * D::kStreamGroups;
  alignas(64) int32_t start[T::kDotZero ? (kShared > kOne ? kShared : kOne) * T::kParts : 1];
  alignas(64) float carry[kRowBlock * kCarryStride];
  const int64_t groups = (args.shape.k + 32 * T::kGroups - 1) / (32 * T::kGroups) * T::kGroups;
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<T::kUnitBytes>(args, p, groups / T::kGroups);
    const int64_t unit_stride = panel.strips * T::kUnitBytes;
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      const int64_t tiles = (block + D::kTileRows - 1) / D::kTileRows;
      const int64_t wide = D::strips(even_rows(block, D::kTileRows));
      const bool stream = D::kStream && tiles == 1 && wide == kPanelStrips;
      const int64_t chunk = stream ? D::kStreamGroups : D::groups(wide);
      const int64_t start_stride = chunk * T::kParts;
      const int64_t parts = tiles * ((panel.strips + wide - 1) / wide);
      for (int64_t g = 0; g < groups; g += chunk) {
        const int64_t count = smaller(chunk, groups - g);
        fill_start<T>(args, row, block, g, count, start, start_stride);
        // The chunk behind this one, of the next panel after the last, is fetched meanwhile.
        const uint8_t* next = panel.base + (g + count) / T::kGroups * unit_stride;
        int64_t part = 0;
        for (int64_t s = 0; s < panel.strips; s += wide) {
          PackedSource<kind> source{
              panel.base + g / T::kGroups * unit_stride + s * T::kUnitBytes, unit_stride, {}};
          for (int64_t r = 0, tile; r < block; r += tile) {
            tile = even_rows(block - r, D::kTileRows);
            if (!stream) source.ahead = fetch_part(next, unit_stride / T::kGroups, part++, parts);
            const TileOutput out =
                output_at(args, row + r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s,
                          g == 0, g + count == groups);
            const IntRows rows = rows_at(args, row + r, g, start + r * start_stride, start_stride);
            with_rows<1, D::kTileRows>(tile, [&]<int kRows>() {
              direct_strips<kind, kRows>(source, smaller(wide, panel.strips - s), rows, count, out);
            });
          }
        }
      }
    }
  }
}

// ---- more rows

template <class T, int64_t kMostGroups = kChunkGroups>
struct IntScratch {
  static constexpr int64_t kSlots = kMostGroups * kScratchStrips;
  alignas(64) uint8_t codes[kSlots * 512];
  alignas(64) float scales[kSlots * T::kParts * 16];
  alignas(64) float offsets[kSlots * T::kParts * 16];  // -kMagic * scale
  alignas(64) float minimums[T::kHasMin ? kSlots * 16 : 16];
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
      for (int part = 0; part < T::kParts; ++part) {
        const F32 scale = group.scale(part);
        store(scratch->scales + (i * T::kParts + part) * 16, scale);
        store(scratch->offsets + (i * T::kParts + part) * 16, mul(scale, set1(-kMagic)));
      }
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
    const int64_t group_bytes = unit_stride / K::kGroups;
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      const int64_t parts = (block + kIntTileRows - 1) / kIntTileRows *
                            ((panel.strips + kScratchStrips - 1) / kScratchStrips);
      for (int64_t g = 0; g < groups; g += kChunkGroups) {
        const int64_t count = smaller(kChunkGroups, groups - g);
        fill_start<T>(args, row, block, g, count, start, kStartStride);
        // The chunk behind this one, of the next panel after the last, is fetched meanwhile.
        const uint8_t* next = panel.base + (g + count) / K::kGroups * unit_stride;
        int64_t part = 0;
        for (int64_t s = 0; s < panel.strips; s += kScratchStrips) {
          const int strips = static_cast<int>(smaller(kScratchStrips, panel.strips - s));
          const PackedSource<kind> source{
              panel.base + g / K::kGroups * unit_stride + s * K::kUnitBytes, unit_stride, {}};
          unpack<kind, T>(source, count, strips, &scratch);
          for (int64_t r = 0, tile; r < block; r += tile) {
            tile = even_rows(block - r, kIntTileRows);
            const TileOutput out =
                output_at(args, row + r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s,
                          g == 0, g + count == groups);
            const IntRows rows = rows_at(args, row + r, g, start + r * kStartStride, kStartStride);
            const UnpackedSource<T> unpacked{scratch.codes, scratch.scales, scratch.minimums,
                                             scratch.offsets,
                                             fetch_part(next, group_bytes, part++, parts)};
            with_rows<1, kIntTileRows>(tile, [&]<int kRows>() {
              int_unpacked_tile<T, kRows>(unpacked, rows, count, strips, out);
            });
          }
        }
      }
    }
  }
}

template <PackedKind kind>
void int_matmul(const MatmulArgs& args) {
  if constexpr (!Direct<kind>::kFree)
    if (args.m > Direct<kind>::kMostRows) return int_blocked<kind>(args);
  int_direct<kind>(args);
}

}  // namespace quire::QUIRE_ISA
