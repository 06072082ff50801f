// The AMX tile unit: its configuration, and products of bf16 tiles into f32 sums that stay in
// tiles.
//
// tdpbf16ps adds 32 k to each of 16 x 16 sums: the even k in ascending order to one chain of FMAs,
// the odd ones to another, then both to the sum. Each row is by itself, so a row's bits do not
// depend on how many rows share a tile. Steps are 32 k from the start of K, always.
//
// Registers, two shapes:
//   wide   up to 16 rows x 4 strips: sums 0-3, activations 4, weights 5, 6, 7 in turns
//   tall   17-32 rows x 2 strips:    sums 0, 1 and (rows 16..) 2, 3, activations 4, 5, weights 6, 7
// Measured (Granite Rapids): a product takes 16 cycles (10 with few rows), a load 8 out of L1 and
// 16 to 20 out of L2, a store 15. A tall step is 4 products and 4 loads, 64 to 72 cycles with
// everything in L2.
#pragma once

#include "kernels/cpu/tiles/int_matmul.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kStepK = 32;        // k of a tile
inline constexpr int64_t kTileBytes = 1024;  // 16 rows (pairs of k) of 64 bytes
inline constexpr int64_t kTileRows = 16;     // of a tile of activations
inline constexpr int64_t kTallRows = 32;
inline constexpr int64_t kCarryBytes = kCarryStride * sizeof(float);

// The instructions by number of register, which GCC's intrinsics take as literal digits only. Loads
// and stores do not say that they touch memory: a fence stands where vectors wrote or will read it.
QUIRE_INLINE void tile_fence() { asm volatile("" ::: "memory"); }
template <int t>
QUIRE_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(t));
}
template <int t>
QUIRE_INLINE void tile_load(const void* from, int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(t));
}
// What is not to displace others in the first-level cache.
template <int t>
QUIRE_INLINE void tile_load_once(const void* from, int64_t row_bytes) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(t));
}
template <int t>
QUIRE_INLINE void tile_store(void* to, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(t));
}
template <int sums, int a, int b>
QUIRE_INLINE void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
}

// The memory operand of ldtilecfg.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
QUIRE_INLINE void load_tile_config(const TileConfig& config) {
  asm volatile("ldtilecfg %0" ::"m"(config));  // GCC's _tile_loadconfig names 8 of the 64 bytes
}
// For `rows` rows, 1..32: the shape is tall from 17 on.
QUIRE_INLINE void configure_tiles(int64_t rows) {
  const bool tall = rows > kTileRows;
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    const bool behind = t == 2 || t == 3 || t == 5, weights = t >= 6 || (t == 5 && !tall);
    const int64_t count = weights ? 16 : !tall ? rows : behind ? rows - kTileRows : kTileRows;
    config.row_bytes[t] = 64;
    config.rows[t] = static_cast<uint8_t>(count);
  }
  load_tile_config(config);
}

// bf16 weights in the form of tiles: that of a step and a strip has 16 rows, pairs of k, each of 16
// outputs x 2 k.
struct WeightTiles {
  const uint8_t* base;
  int64_t step_bytes, strip_bytes, row_bytes;  // from one step, strip, pair of k to the next
  QUIRE_INLINE const uint8_t* at(int64_t step, int64_t strip) const {
    return base + step * step_bytes + strip * strip_bytes;
  }
  QUIRE_INLINE WeightTiles right(int64_t strips) const {
    return {base + strips * strip_bytes, step_bytes, strip_bytes, row_bytes};
  }
};
// Rows of bf16 activations, at the first k wanted.
struct ActivationRows {
  const uint8_t* base;
  int64_t row_bytes;
  QUIRE_INLINE const uint8_t* at(int64_t step) const { return base + step * 2 * kStepK; }
};

// fn.template operator()<i>() for i in [0, n).
template <int n, int i = 0, class Fn>
QUIRE_INLINE void each_of(const Fn& fn) {
  if constexpr (i < n) {
    fn.template operator()<i>();
    each_of<n, i + 1>(fn);
  }
}

// A row of tiles x strips. The numbers of tile registers have to be constants.
template <bool kTall, int kStrips>
struct TileShape {
  static constexpr int kTallTiles = kTall ? 2 : 1;
  static_assert(kTall ? kStrips <= 2 : kStrips <= 4);

  static QUIRE_INLINE void zero() {
    each_of<kStrips>([]<int s>() {
      tile_zero<s>();
      if constexpr (kTall) tile_zero<2 + s>();
    });
  }
  // One strip of a step; the activations have been loaded.
  template <int s>
  static QUIRE_INLINE void multiply(const uint8_t* weights, int64_t row_bytes) {
    if constexpr (kTall) {
      tile_load_once<6 + s>(weights, row_bytes);
      tile_dot_bf16<s, 4, 6 + s>();
      tile_dot_bf16<2 + s, 5, 6 + s>();
    } else {
      tile_load<5 + s % 3>(weights, row_bytes);
      tile_dot_bf16<s, 4, 5 + s % 3>();
    }
  }
  static QUIRE_INLINE void load_rows(const ActivationRows& a, int64_t step) {
    tile_load<4>(a.at(step), a.row_bytes);
    if constexpr (kTall) tile_load<5>(a.at(step) + kTileRows * a.row_bytes, a.row_bytes);
  }
  static QUIRE_INLINE void step(const WeightTiles& w, const ActivationRows& a, int64_t step) {
    load_rows(a, step);
    each_of<kStrips>([&]<int s>() { multiply<s>(w.at(step, s), w.row_bytes); });
  }
  static QUIRE_INLINE void load(const float* from, int64_t row_bytes) {
    each_of<kStrips>([&]<int s>() {
      tile_load<s>(from + 16 * s, row_bytes);
      if constexpr (kTall) tile_load<2 + s>(from + 16 * s + kTileRows * row_bytes / 4, row_bytes);
    });
  }
  static QUIRE_INLINE void store(float* to, int64_t row_bytes) {
    each_of<kStrips>([&]<int s>() {
      tile_store<s>(to + 16 * s, row_bytes);
      if constexpr (kTall) tile_store<2 + s>(to + 16 * s + kTileRows * row_bytes / 4, row_bytes);
    });
  }
  // Before the first step of a chunk of K, and after its last.
  static QUIRE_INLINE void start(const TileOutput& out) {
    out.first ? zero() : load(out.carry, kCarryBytes);
  }
  // factor: of the sums, a power of two.
  static QUIRE_INLINE void finish(const TileOutput& out, int64_t rows, float factor) {
    if (!out.last) return store(out.carry, kCarryBytes);
    const bool plain = !out.bias && !out.accumulate && out.columns >= 16 * kStrips;
    if (plain && factor == 1.0f) return store(out.c, out.ldc * static_cast<int64_t>(sizeof(float)));
    alignas(64) float sums[kTallTiles * kTileRows][kStrips][16];
    store(sums[0][0], sizeof sums[0]);
    tile_fence();
    const F32 by = set1(factor);
    for (int r = 0; r < rows; ++r) {
      for (int s = 0; s < kStrips; ++s) {
        const F32 sum = mul(quire::QUIRE_ISA::load(sums[r][s]), by);
        plain ? quire::QUIRE_ISA::store(out.c + r * out.ldc + 16 * s, sum)
              : finish_strip(out, r, s, sum);
      }
    }
  }
};

}  // namespace quire::QUIRE_ISA
