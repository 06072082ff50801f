// bf16 weights and activations on the AMX tile unit, for every number of rows.
//
// tdpbf16ps adds pairs of k in ascending order to f32 sums that stay in the tile registers over all
// of K, each row on its own, so a row's bits do not depend on how many rows share the tile. One
// block is up to 32 rows x 2 strips: 4 tiles of sums, 2 of activations (16 rows x 32 k), 2 of
// weights (32 k x 16). Per 32 k: 4 products of 16 cycles, 4 loads of 8 cycles.
#pragma once

#include "kernels/cpu/amx/int_amx.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kBf16StepK = 32;

// Tiles 0, 1: sums of the first 16 rows, two strips; 2, 3: of the rows behind; 4, 5: activations;
// 6, 7: weights of `pairs` pairs of k.
QUIRE_INLINE void configure_bf16_tiles(int64_t rows, int64_t pairs) {
  const int64_t first = rows < 16 ? rows : 16, second = rows - first;
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    const bool behind = t == 2 || t == 3 || t == 5;
    config.row_bytes[t] = static_cast<uint16_t>(t == 4 || t == 5 ? 4 * pairs : 64);
    config.rows[t] = static_cast<uint8_t>(t >= 6 ? pairs : behind ? (second ? second : 1) : first);
  }
  asm volatile("ldtilecfg %0" ::"m"(config));
}

struct Bf16Block {
  const uint16_t* a;
  int64_t a_stride;  // elements
  const uint8_t* weights;
  int64_t unit_stride;  // bytes from one pair of k to the next
  int64_t rows;         // 1..32
  int strips;           // 1..2
};
struct alignas(64) Bf16Sums {
  float v[32][2][16];
};

QUIRE_INLINE void bf16_zero() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
// Products of k [2 unit, 2 unit + the configured pairs).
template <bool kTwoTiles, bool kTwoStrips>
QUIRE_INLINE void bf16_step(const Bf16Block& b, int64_t unit) {
  const uint16_t* a = b.a + 2 * unit;
  const uint8_t* w = b.weights + unit * b.unit_stride;
  _tile_loadd(4, a, 2 * b.a_stride);
  _tile_loadd(6, w, b.unit_stride);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kTwoStrips) {
    _tile_loadd(7, w + 64, b.unit_stride);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (kTwoTiles) {
    _tile_loadd(5, a + 16 * b.a_stride, 2 * b.a_stride);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (kTwoStrips) _tile_dpbf16ps(3, 5, 7);
  }
}
template <bool kTwoTiles, bool kTwoStrips>
void bf16_steps(const Bf16Block& b, int64_t units, Bf16Sums* sums) {
  asm volatile("" ::: "memory");  // tile loads do not say that they read memory
  int64_t unit = 0;
  for (; unit + kBf16StepK / 2 <= units; unit += kBf16StepK / 2)
    bf16_step<kTwoTiles, kTwoStrips>(b, unit);
  constexpr int64_t kStride = sizeof sums->v[0];
  const auto store_all = [&] {
    _tile_stored(0, sums->v[0][0], kStride);
    if constexpr (kTwoStrips) _tile_stored(1, sums->v[0][1], kStride);
    if constexpr (kTwoTiles) _tile_stored(2, sums->v[16][0], kStride);
    if constexpr (kTwoTiles && kTwoStrips) _tile_stored(3, sums->v[16][1], kStride);
  };
  if (unit == units) return store_all();
  // The rest of K: tiles of fewer pairs; a new configuration clears the tiles, so the sums go
  // through memory.
  store_all();
  configure_bf16_tiles(b.rows, units - unit);
  _tile_loadd(0, sums->v[0][0], kStride);
  if constexpr (kTwoStrips) _tile_loadd(1, sums->v[0][1], kStride);
  if constexpr (kTwoTiles) _tile_loadd(2, sums->v[16][0], kStride);
  if constexpr (kTwoTiles && kTwoStrips) _tile_loadd(3, sums->v[16][1], kStride);
  bf16_step<kTwoTiles, kTwoStrips>(b, unit);
  store_all();
  configure_bf16_tiles(b.rows, kBf16StepK / 2);
}

inline void amx_bf16_matmul(const MatmulArgs& args) {
  const int64_t units = (args.shape.k + 1) / 2;
  int64_t configured = 0;
  Bf16Sums sums;
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<64>(args, p, units);
    for (int64_t row = 0, rows; row < args.m; row += rows) {
      rows = even_rows(args.m - row, 32);
      if (rows != configured) configure_bf16_tiles(rows, kBf16StepK / 2);
      configured = rows;
      for (int64_t s = 0; s < panel.strips; s += 2) {
        const int strips = static_cast<int>(smaller(2, panel.strips - s));
        const Bf16Block block{static_cast<const uint16_t*>(args.a) + row * args.a_stride,
                              args.a_stride,
                              panel.base + s * 64,
                              panel.strips * 64,
                              rows,
                              strips};
        bf16_zero();
        if (rows > 16) {
          strips == 2 ? bf16_steps<true, true>(block, units, &sums)
                      : bf16_steps<true, false>(block, units, &sums);
        } else {
          strips == 2 ? bf16_steps<false, true>(block, units, &sums)
                      : bf16_steps<false, false>(block, units, &sums);
        }
        const TileOutput out = output_at(args, row, panel.column + 16 * s, nullptr, true, true);
        for (int64_t r = 0; r < rows; ++r)
          for (int t = 0; t < strips; ++t)
            finish_strip(out, static_cast<int>(r), t, load(sums.v[r][t]));
      }
    }
  }
  _tile_release();
}

}  // namespace quire::QUIRE_ISA
