// Matrix products of integer kinds with int8 activations: the loops around int_tile.
//
// Tiles read the packed weights themselves and unpack them in registers where that costs nothing
// (vpdpbusd keeps two of four vector ports busy) or for few rows. Otherwise a chunk of K of two
// strips is unpacked once into a scratch that serves a block of rows. Either way a chunk stays in
// a cache while tiles of rows pass. Between chunks of K the sums wait in a carry buffer: an exact
// copy, so chunks never change a bit.
#pragma once

#include "kernels/cpu/tiles/int_block.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kWalkedRows = 16;  // at most

typedef int32_t Four __attribute__((vector_size(16)));
QUIRE_INLINE Four four_at(const int32_t* p) {
  Four v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// What rows bring to each group of a chunk, every row kHeadStride from the next.
template <class T>
struct IntHeads {
  alignas(64) float scale[kWalkedRows * kHeadStride];
  alignas(64) float sum[T::kHasMin ? kWalkedRows * T::kParts * kHeadStride : 1];
  alignas(64) int32_t start[T::kDotZero ? kWalkedRows * T::kParts * kHeadStride : 1];

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
      [[maybe_unused]] const int32_t* isum = args.a_isum + 2 * from;
      if constexpr (T::kHasMin && T::kParts == 2) {
        for (int64_t g = 0; g < 2 * groups; ++g)
          sum[2 * to + g] = args.a_scale[from + g / 2] * static_cast<float>(isum[g]);
      } else if constexpr (T::kHasMin) {
        copy(args.a_sum + from, groups, sum + to);
      }
      if constexpr (T::kDotZero != 0) {
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
            T::kHasMin ? sum + r * T::kParts * kHeadStride : nullptr,
            T::kDotZero ? start + r * T::kParts * kHeadStride : nullptr};
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

// Few rows: a panel at a time.
template <PackedKind kind>
void int_walk(const MatmulArgs& args) {
  using K = Traits<kind>;
  using Way = DirectWay<kind>;
  IntHeads<K> heads;
  alignas(64) float carry[kWalkedRows * kCarryStride];
  const int64_t groups = (args.shape.k + 32 * K::kGroups - 1) / (32 * K::kGroups) * K::kGroups;
  const int64_t block = args.m;
  const int64_t tiles = (block + Way::kTileRows - 1) / Way::kTileRows;
  const bool few = block <= Way::kFewRows;
  const int64_t wide = few ? Way::kFewStrips : Way::kManyStrips;
  const bool stream = Way::kStream && tiles <= 2 && wide == kPanelStrips;
  const int64_t chunk = stream ? kHeadStride : Way::groups(wide);
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<K::kUnitBytes>(args, p, groups / K::kGroups);
    const int64_t unit_stride = panel.strips * K::kUnitBytes;
    const int64_t parts = tiles * ((panel.strips + wide - 1) / wide);
    for (int64_t g = 0; g < groups; g += chunk) {
      const int64_t count = smaller(chunk, groups - g);
      heads.fill(args, 0, block, g, count);
      // A stream is fetched by the processor, or asked for a little ahead (kFetchesStream). Else
      // the chunk behind this one, of the next panel after the last, is fetched into L2 meanwhile.
      const uint8_t* next = panel.base + (g + count) / K::kGroups * unit_stride;
      int64_t part = 0;
      for (int64_t s = 0; s < panel.strips; s += wide) {
        const int64_t strips = smaller(wide, panel.strips - s);
        PackedSource<kind> source{
            panel.base + g / K::kGroups * unit_stride + s * K::kUnitBytes, unit_stride, {}};
        for (int64_t r = 0, tile; r < block; r += tile) {
          tile = even_rows(block - r, Way::kTileRows);
          if (kFetchesStream && wide == kPanelStrips) {
            source.ahead = {};
            if (r == 0)  // which reads from memory
              source.ahead =
                  fetch_part(source.base + (K::kGroups == 1 ? kStreamAhead : unit_stride),
                             unit_stride / K::kGroups, 0, 1);
          } else if (!stream) {
            source.ahead = fetch_part(next, unit_stride / K::kGroups, part++, parts);
          }
          const TileOutput out =
              output_at(args, r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s, g == 0,
                        g + count == groups);
          const IntRows rows = heads.rows(args, 0, r, g);
          with_tile<Way>(few, tile, [&]<int kRows, int kWide>() {
            Way::template tile<kRows, kWide>(source, strips, rows, count, out);
          });
        }
      }
    }
  }
}

template <PackedKind kind>
void int_matmul(const MatmulArgs& args) {
  using Direct = DirectWay<kind>;
  if (args.m <= Direct::kMostWalked) return int_walk<kind>(args);
  if constexpr (Direct::kFree || Direct::kMostDirect > 0) {
    if (Direct::kFree || args.m <= Direct::kMostDirect) return int_block<kind, Direct>(args);
  }
  if constexpr (!Direct::kFree) int_block<kind, UnpackedWay<kind>>(args);
}

}  // namespace quire::QUIRE_ISA
