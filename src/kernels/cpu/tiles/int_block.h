// Products of integer kinds with many rows. A block of rows x a chunk of K is gathered into the
// order in which tiles read it, for several panels at once: gathering for each panel took some 3 %
// of its products' time, and tiles that read rows where they lie find them far apart, up to all in
// one set of L1.
#pragma once

#include "kernels/cpu/tiles/int_ways.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kBlockPanels = 8;  // that share what was gathered: 192 KB of sums
inline constexpr int kBlockStrips = 2;      // of a tile

template <class Way>
struct GatheredBlock {
  using T = typename Way::Source::T;
  using Group = RowsGroup<Way::kTileRows, T::kParts, T::kHasMin>;
  static constexpr int64_t kTiles = (kRowBlock + Way::kTileRows - 1) / Way::kTileRows;
  alignas(64) Group groups[kTiles][kHeadStride];

  static QUIRE_INLINE void fill_row(const MatmulArgs& args, int64_t row, int64_t group,
                                    int64_t count, Group* to, int64_t i) {
    const int8_t* codes = static_cast<const int8_t*>(args.a) + row * args.a_stride + 32 * group;
    const int64_t from = row * args.scale_stride + group;
    for (int64_t g = 0; g < count; ++g, ++to) {
      __builtin_memcpy(to->codes[i], codes + 32 * g, 32);
      to->scales[i] = args.a_scale[from + g];
      [[maybe_unused]] const int32_t* isum = args.a_isum + 2 * (from + g);
      if constexpr (T::kHasMin) {
        for (int part = 0; part < T::kParts; ++part)
          to->sums[i][part] = T::kParts == 2 ? to->scales[i] * static_cast<float>(isum[part])
                                             : args.a_sum[from + g];
      }
      if constexpr (T::kDotZero != 0) {
        for (int part = 0; part < T::kParts; ++part) {
          const int32_t sum = T::kParts == 2 ? isum[part] : isum[0] + isum[1];
          to->starts[i][part] = kMagicBits - T::kDotZero * sum;
        }
      }
    }
  }
  // Rows [row, row + rows), groups [group, group + count).
  QUIRE_INLINE void fill(const MatmulArgs& args, int64_t row, int64_t rows, int64_t group,
                         int64_t count) {
    for (int64_t r = 0, t = 0, tile; r < rows; r += tile, ++t) {
      tile = even_rows(rows - r, Way::kTileRows);
      for (int64_t i = 0; i < tile; ++i) fill_row(args, row + r + i, group, count, groups[t], i);
    }
  }
  QUIRE_INLINE GatheredRows<Group> rows(int64_t tile) const { return {groups[tile]}; }
};

// A block of rows: [row, row + rows), the panels [first, end), the chunk of units [begin, end).
struct BlockPart {
  int64_t row, rows, first_panel, end_panel, begin, end, units;
};

// What the chunk of panel p is followed by: the next panel's chunk, after the last the first
// panel's next chunk, after that what lies behind.
template <int kUnitBytes>
QUIRE_INLINE const uint8_t* behind(const MatmulArgs& args, const BlockPart& part, int64_t p) {
  const bool last = p + 1 == part.end_panel, ends = part.end == part.units;
  const Panel next =
      panel_at<kUnitBytes>(args, last && !ends ? part.first_panel : p + 1, part.units);
  return next.base + (last ? ends ? 0 : part.end : part.begin) * next.strips * kUnitBytes;
}

template <PackedKind kind, class Way>
QUIRE_INLINE void block_panel(const MatmulArgs& args, const BlockPart& part, int64_t p, Way& way,
                              const GatheredBlock<Way>& rows, float* carry) {
  using K = Traits<kind>;
  const Panel panel = panel_at<K::kUnitBytes>(args, p, part.units);
  const int64_t unit_stride = panel.strips * K::kUnitBytes;
  const int64_t groups = (part.end - part.begin) * K::kGroups;
  const int64_t tiles = (part.rows + Way::kTileRows - 1) / Way::kTileRows;
  const int64_t shares = tiles * ((panel.strips + kBlockStrips - 1) / kBlockStrips);
  const uint8_t* next = behind<K::kUnitBytes>(args, part, p);
  int64_t share = 0;
  for (int64_t s = 0; s < panel.strips; s += kBlockStrips) {
    const int64_t strips = smaller(kBlockStrips, panel.strips - s);
    const PackedSource<kind> packed{
        panel.base + part.begin * unit_stride + s * K::kUnitBytes, unit_stride, {}};
    auto source = way.source(packed, groups, strips);
    for (int64_t r = 0, t = 0, tile; r < part.rows; r += tile, ++t) {
      tile = even_rows(part.rows - r, Way::kTileRows);
      source.ahead = fetch_part(next, unit_stride / K::kGroups, share++, shares);
      const TileOutput out =
          output_at(args, part.row + r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s,
                    part.begin == 0, part.end == part.units);
      if (out.last) fetch_output(out, tile, strips);
      const auto tile_rows = rows.rows(t);
      with_rows<1, Way::kTileRows>(tile, [&]<int kRows>() {
        Way::template tile<kRows, Way::kManyStrips>(source, strips, tile_rows, groups, out);
      });
    }
  }
}

template <PackedKind kind, class Way>
void int_block(const MatmulArgs& args) {
  using K = Traits<kind>;
  Way way;
  GatheredBlock<Way> rows;
  alignas(64) float carry[kBlockPanels][kRowBlock * kCarryStride];
  BlockPart part;
  part.units = (args.shape.k + 32 * K::kGroups - 1) / (32 * K::kGroups);
  // Chunks of equal size, of at most so many units.
  constexpr int64_t kMost = smaller(kHeadStride, Way::kBlockGroups) / K::kGroups;
  const int64_t chunks = (part.units + kMost - 1) / kMost;
  const int64_t chunk = (part.units + chunks - 1) / chunks;
  for (part.first_panel = args.panel_begin; part.first_panel < args.panel_end;
       part.first_panel = part.end_panel) {
    part.end_panel = smaller(part.first_panel + kBlockPanels, args.panel_end);
    for (part.row = 0; part.row < args.m; part.row += part.rows) {
      part.rows = even_rows(args.m - part.row, kRowBlock);
      for (part.begin = 0; part.begin < part.units; part.begin = part.end) {
        part.end = smaller(part.begin + chunk, part.units);
        rows.fill(args, part.row, part.rows, part.begin * K::kGroups,
                  (part.end - part.begin) * K::kGroups);
        for (int64_t p = part.first_panel; p < part.end_panel; ++p)
          block_panel<kind>(args, part, p, way, rows, carry[p - part.first_panel]);
      }
    }
  }
}

}  // namespace quire::QUIRE_ISA
