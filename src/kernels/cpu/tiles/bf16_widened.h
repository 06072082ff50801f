// Products of bf16 weights and bf16 activations where no instruction multiplies pairs of them: both
// are widened to f32, as often as it takes and no more. The order of additions is float_tile's and
// bf16_tile's: k ascending, one fused multiply-add each.
//
// A pair of k takes two operations to widen, for a strip of weights as for a row of activations,
// beside one FMA for each of its two k. So activations are widened once for the panels that share
// them, and weights in the registers of a tile for few rows, into a scratch for more.
#pragma once

#include "kernels/cpu/tiles/float_matmul.h"

namespace quire::QUIRE_ISA {

// With 32 registers: 4 x 4 takes 16 sums, 8 weights, 2 broadcasts.
inline constexpr int kWidenedTileRows = 4;
inline constexpr int kWidenedTileStrips = kVectorRegisters >= 32 ? 4 : 1;
// More rows share a scratch.
inline constexpr int64_t kWidenedDirectRows = kVectorRegisters >= 32 ? 12 : 4;
// k of a chunk: one tile reads a long stream, several tiles read a panel's 32 KB again.
inline constexpr int64_t kWidenedOneTileK = 1024, kWidenedDirectK = 256;
inline constexpr int64_t kWidenedFloats = kRowBlock * kFloatChunkK;
static_assert(kWidenedFloats >= kWidenedTileRows * kWidenedOneTileK &&
              kWidenedFloats >= kWidenedDirectRows * kWidenedDirectK);

// Rows [row, row + rows), k [k0, k0 + count) as f32, `stride` from row to row.
QUIRE_INLINE void widen_rows(const MatmulArgs& args, int64_t row, int64_t rows, int64_t k0,
                             int64_t count, float* out, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t* a = static_cast<const uint16_t*>(args.a) + (row + r) * args.a_stride + k0;
    float* to = out + r * stride;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) store(to + i, load_bf16(a + i));
    if (i < count) store(to + i, load_bf16_n(a + i, static_cast<int>(count - i)));
  }
}

// Weights are read as they are packed.
QUIRE_INLINE void widened_few(const Panel& panel, const float* rows, int64_t stride, int64_t count,
                              int64_t k0, int64_t units, const TileOutput& out) {
  constexpr int kMost = kWidenedTileStrips;
  constexpr PackedKind kKind = PackedKind::kBF16;
  static constexpr FloatTileFn<float> kWide[kWidenedTileRows] = {
      float_tile_call<kKind, 1, kMost>, float_tile_call<kKind, 2, kMost>,
      float_tile_call<kKind, 3, kMost>, float_tile_call<kKind, 4, kMost>};
  static constexpr FloatTileFn<float> kNarrow[kWidenedTileRows] = {
      float_tile_call<kKind, 1, 1>, float_tile_call<kKind, 2, 1>, float_tile_call<kKind, 3, 1>,
      float_tile_call<kKind, 4, 1>};
  const int64_t unit_bytes = panel.strips * 64;
  FloatSource source{panel.base + k0 / 2 * unit_bytes, unit_bytes, {}};
  const int64_t tiles = (count + kWidenedTileRows - 1) / kWidenedTileRows;
  for (int64_t r = 0, part = 0, tile; r < count; r += tile, ++part) {
    tile = even_rows(count - r, kWidenedTileRows);
    // One tile: what it reads next; several: the next panel's chunk.
    const int64_t ahead = tiles == 1 ? kStreamAhead : panel.units * unit_bytes;
    source.ahead = fetch_part(source.base + ahead, unit_bytes, part, tiles);
    run_strips(kWide[tile - 1], kMost, kNarrow[tile - 1], source, 64, panel.strips,
               rows + r * stride, stride, units, rows_down(out, r));
  }
}

inline void bf16_widened(const MatmulArgs& args) {
  constexpr PackedKind kKind = PackedKind::kBF16;
  alignas(64) float rows[kWidenedFloats];
  alignas(64) float scratch[kFloatChunkK * kFloatScratchStrips * 16];
  alignas(64) float carry[kBlockPanels][kRowBlock * kCarryStride];
  const int64_t units = (args.shape.k + 1) / 2, padded_k = 2 * units;
  for (int64_t first = args.panel_begin, end; first < args.panel_end; first = end) {
    end = smaller(first + kBlockPanels, args.panel_end);
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      const bool direct = block <= kWidenedDirectRows;
      const int64_t chunk = block <= kWidenedTileRows ? kWidenedOneTileK
                            : direct                  ? kWidenedDirectK
                                                      : kFloatChunkK;
      for (int64_t k = 0, count; k < padded_k; k += count) {
        count = smaller(chunk, padded_k - k);
        widen_rows(args, row, block, k, count, rows, chunk);
        for (int64_t p = first; p < end; ++p) {
          const Panel panel = panel_at<64>(args, p, units);
          const TileOutput out =
              output_at(args, row, panel.column, carry[p - first], k == 0, k + count == padded_k);
          if (direct) {
            widened_few(panel, rows, chunk, block, k, count / 2, out);
            continue;
          }
          for (int64_t s = 0; s < panel.strips; s += kFloatScratchStrips) {
            const int64_t strips = smaller(kFloatScratchStrips, panel.strips - s);
            widen<kKind>(panel, s, static_cast<int>(strips), k, count, scratch);
            const TileOutput strip_out = strips_right(out, s);
            for (int64_t r = 0, tile; r < block; r += tile) {
              tile = even_rows(block - r, kFloatTileRows);
              scratch_rows(scratch, strips, tile, rows + r * kFloatChunkK, kFloatChunkK, count / 2,
                           rows_down(strip_out, r));
            }
          }
        }
      }
    }
  }
}

}  // namespace quire::QUIRE_ISA
