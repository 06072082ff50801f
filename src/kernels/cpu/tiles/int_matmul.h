// Matrix products of integer kinds with int8 activations: the loops around int_tile.
//
// Tiles read the packed weights themselves and unpack them in registers where that costs nothing
// (vpdpbusd keeps two of four vector ports busy) or for few rows. Otherwise a chunk of K of two
// strips is unpacked once into a scratch that serves a block of rows. Either way a chunk stays in
// a cache while tiles of rows pass. Between chunks of K the sums wait in a carry buffer: an exact
// copy, so chunks never change a bit.
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
// How many rows the next tile takes, so that tiles are even: 8 rows are 4 + 4, not 6 + 2.
QUIRE_INLINE int64_t even_rows(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

typedef int32_t Four __attribute__((vector_size(16)));
QUIRE_INLINE Four four_at(const int32_t* p) {
  Four v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// What a block of rows brings to each group of a chunk, every row kHeadStride from the next.
template <class T>
struct IntHeads {
  alignas(64) float scale[kRowBlock * kHeadStride];
  alignas(64) float sum[T::kHasMin ? kRowBlock * kHeadStride : 1];
  alignas(64) int32_t start[T::kDotZero ? kRowBlock * T::kParts * kHeadStride : 1];

  static QUIRE_INLINE void copy(const float* from, int64_t groups, float* to) {
    for (int64_t g = 0; g < groups; g += 16) {
      if (groups - g >= 16)
        store(to + g, load(from + g));
      else
        store_n(to + g, load_n(from + g, static_cast<int>(groups - g)),
                static_cast<int>(groups - g));
    }
  }
  QUIRE_INLINE void fill(const MatmulArgs& args, int64_t row, int64_t rows, int64_t group,
                         int64_t groups) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t from = (row + r) * args.scale_stride + group, to = r * kHeadStride;
      copy(args.a_scale + from, groups, scale + to);
      if constexpr (T::kHasMin) copy(args.a_sum + from, groups, sum + to);
      if constexpr (T::kDotZero != 0) {
        const int32_t* isum = args.a_isum + 2 * from;
        int32_t* out = start + T::kParts * to;
        if constexpr (T::kParts == 2) {
          for (int64_t g = 0; g < 2 * groups; ++g) out[g] = kMagicBits - T::kDotZero * isum[g];
        } else {
          int64_t g = 0;
          for (; g + 4 <= groups; g += 4) {
            const Four a = four_at(isum + 2 * g), b = four_at(isum + 2 * g + 4);
            const Four sums = __builtin_shufflevector(a, b, 0, 2, 4, 6) +
                              __builtin_shufflevector(a, b, 1, 3, 5, 7);
            const Four starts = kMagicBits - T::kDotZero * sums;
            __builtin_memcpy(out + g, &starts, sizeof starts);
          }
          for (; g < groups; ++g)
            out[g] = kMagicBits - T::kDotZero * (isum[2 * g] + isum[2 * g + 1]);
        }
      }
    }
  }
  QUIRE_INLINE IntRows rows(const MatmulArgs& args, int64_t row, int64_t r, int64_t group) const {
    const int8_t* a = static_cast<const int8_t*>(args.a);
    return {a + (row + r) * args.a_stride + 32 * group, args.a_stride, scale + r * kHeadStride,
            T::kHasMin ? sum + r * kHeadStride : nullptr,
            T::kDotZero ? start + r * T::kParts * kHeadStride : nullptr};
  }
};

// Ways to multiply: what tiles read, and their sizes. kFewStrips is the width of tiles for blocks
// of up to kFewRows rows, which have no more than kFewTileRows each; kManyStrips that of others,
// whose tiles have kManyTileRows at least.

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
  static constexpr bool kPlanes = T::kSix || (T::kFive && T::kTwoLevel);  // take many registers
  static constexpr bool kFree = kDirectIsFree && !kPlanes;
  static constexpr int64_t kMostRows = kFree ? INT64_MAX : kZmm ? 16 : 2;
  static constexpr int kTileRows = !kZmm ? 2 : kFree ? 6 : 4;
  static constexpr bool kManyBytes = T::kGroups == 1 && (T::kWide || T::kFive);
  static constexpr int kFewStrips = kZmm ? 4 : 1, kManyStrips = kZmm ? 2 : 1;
  static constexpr int64_t kFewRows = kManyBytes ? 2 * kTileRows : 2;
  static constexpr int kFewTileRows = kManyBytes ? kTileRows : 2, kManyTileRows = kTileRows / 2;
  // Groups of a chunk: 16 to 20 KB, for units of several groups no more than 16 groups.
  static constexpr int64_t groups(int64_t wide) {
    const bool doubled = wide <= 2 && T::kGroups == 1, small = T::kUnitBytes / T::kGroups <= 320;
    return 8 * (doubled ? 2 : 1) * (small ? 2 : 1);
  }
  // Units of one group, read by tiles as wide as the panel.
  static constexpr bool kStream = T::kGroups == 1;

  QUIRE_INLINE Source source(const Source& packed, int64_t, int64_t) { return packed; }
  // Strips that are fewer than kWide are done one by one.
  template <int kRows, int kWide>
  static void tile(Source source, int64_t strips, const IntRows& rows, int64_t groups,
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
  alignas(64) float minimums[T::kHasMin ? kSlots * 16 : 16];
};

// Tiles read a chunk of two strips that has been unpacked.
template <PackedKind kind>
struct UnpackedWay {
  using K = Traits<kind>;
  using T = UnpackedTraits<K::kWide, K::kParts, K::kHasMin, K::kDotZero>;
  using Source = UnpackedSource<T>;
  // See int_tile for the zmm registers. ymm: 3 x 1 takes 6 + 6 of 16.
  static constexpr int kTileRows = kVectorRegisters >= 32 ? 6 : 3;
  static constexpr int kTileStrips = kVectorRegisters >= 32 ? 2 : 1;
  static constexpr int kFewStrips = kScratchStrips, kManyStrips = kScratchStrips;
  static constexpr int64_t kFewRows = INT64_MAX;
  static constexpr int kFewTileRows = kTileRows, kManyTileRows = 1;
  static constexpr bool kStream = false;
  static constexpr int64_t groups(int64_t) { return kChunkGroups; }

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
        }
        if constexpr (T::kHasMin) store(scratch.minimums + i * 16, group.minimum());
      }
    }
    return {scratch.codes, scratch.scales, scratch.minimums, scratch.offsets, {}};
  }
  template <int kRows, int kWide>
  static void tile(const Source& source, int64_t strips, const IntRows& rows, int64_t groups,
                   const TileOutput& out) {
    if (strips == 2 && kTileStrips == 2)
      return int_tile<Source, kRows, kTileStrips, kTileStrips>(source, rows, groups, out);
    for (int s = 0; s < strips; ++s)
      int_tile<Source, kRows, 1, 1>(source.strip(s), rows, groups, strips_right(out, s));
  }
};

// fn.template operator()<rows, strips>() for a tile of a block.
template <class Way, class Fn>
QUIRE_INLINE void with_tile(bool few, int64_t rows, const Fn& fn) {
  if constexpr (Way::kFewStrips != Way::kManyStrips) {
    if (!few) {
      return with_rows<Way::kManyTileRows, Way::kTileRows>(
          rows, [&]<int kRows>() { fn.template operator()<kRows, Way::kManyStrips>(); });
    }
    with_rows<1, Way::kFewTileRows>(
        rows, [&]<int kRows>() { fn.template operator()<kRows, Way::kFewStrips>(); });
  } else {
    with_rows<1, Way::kTileRows>(
        rows, [&]<int kRows>() { fn.template operator()<kRows, Way::kFewStrips>(); });
  }
}

template <PackedKind kind, class Way>
void int_walk(const MatmulArgs& args) {
  using K = Traits<kind>;
  using T = typename Way::Source::T;
  Way way;
  IntHeads<T> heads;
  alignas(64) float carry[kRowBlock * kCarryStride];
  const int64_t groups = (args.shape.k + 32 * K::kGroups - 1) / (32 * K::kGroups) * K::kGroups;
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<K::kUnitBytes>(args, p, groups / K::kGroups);
    const int64_t unit_stride = panel.strips * K::kUnitBytes;
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      const int64_t tiles = (block + Way::kTileRows - 1) / Way::kTileRows;
      const bool few = block <= Way::kFewRows;
      const int64_t wide = few ? Way::kFewStrips : Way::kManyStrips;
      const bool stream = Way::kStream && tiles <= 2 && wide == kPanelStrips;
      const int64_t chunk = stream ? kHeadStride : Way::groups(wide);
      const int64_t parts = tiles * ((panel.strips + wide - 1) / wide);
      for (int64_t g = 0; g < groups; g += chunk) {
        const int64_t count = smaller(chunk, groups - g);
        heads.fill(args, row, block, g, count);
        // Where no stream does so, the chunk behind this one, of the next panel after the last, is
        // fetched into L2 meanwhile.
        const uint8_t* next = panel.base + (g + count) / K::kGroups * unit_stride;
        int64_t part = 0;
        for (int64_t s = 0; s < panel.strips; s += wide) {
          const int64_t strips = smaller(wide, panel.strips - s);
          const PackedSource<kind> packed{
              panel.base + g / K::kGroups * unit_stride + s * K::kUnitBytes, unit_stride, {}};
          auto source = way.source(packed, count, strips);
          for (int64_t r = 0, tile; r < block; r += tile) {
            tile = even_rows(block - r, Way::kTileRows);
            if (!stream) source.ahead = fetch_part(next, unit_stride / K::kGroups, part++, parts);
            const TileOutput out =
                output_at(args, row + r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s,
                          g == 0, g + count == groups);
            const IntRows rows = heads.rows(args, row, r, g);
            with_tile<Way>(few, tile, [&]<int kRows, int kWide>() {
              Way::template tile<kRows, kWide>(source, strips, rows, count, out);
            });
          }
        }
      }
    }
  }
}

template <PackedKind kind>
void int_matmul(const MatmulArgs& args) {
  if constexpr (!DirectWay<kind>::kFree)
    if (args.m > DirectWay<kind>::kMostRows) return int_walk<kind, UnpackedWay<kind>>(args);
  int_walk<kind, DirectWay<kind>>(args);
}

}  // namespace quire::QUIRE_ISA
