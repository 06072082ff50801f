// Integer kinds on the AMX tile unit: the exact int32 sums of each group come from
// tdpbssd, the float update from the same instructions in the same order as in int_tile, so the
// bits equal the vpdpbusd path and the two may share one matrix by number of rows.
//
// One step multiplies up to 16 rows x one strip x one group (32 k; 16 for kQ6K). Its int32 sums are
// stored to L1 and added some steps later, while the tile unit works on the next groups. Measured
// (Sapphire Rapids): a product takes as many cycles as it has rows, a store 16 whatever the rows,
// and the two do not overlap: 28 together. The float update takes 3 (4 with a minimum) operations
// on ports 0 and 5 per row, 24-32 cycles for 16 rows, and does not overlap with the tile unit
// either. So a step does 8192 products in about 60 cycles; vpdpbusd and its update take 88. Codes
// are unpacked as signed bytes (q - zero), so no sum of activations is needed.
#pragma once

#include "kernels/cpu/tiles/int_matmul.h"

namespace quire::QUIRE_ISA {

inline constexpr int kAmxMostRows = 16;
inline constexpr int64_t kAmxGroupBytes = kAmxMostRows * 32;  // int8 activations of a group
inline constexpr int64_t kAmxLeastRows = 12;                  // below, vpdpbusd is faster
inline constexpr int kAmxLeastTile = 8;                       // 17 rows are 9 + 8
// Steps between a group's products and their use: a tile's way through load, product and store
// takes over 100 cycles.
inline constexpr int kAmxAhead = 3;

// The memory operand of ldtilecfg.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
// Tiles 0-1: sums [rows][16]; 4-5: activations [rows][group_k]; 6-7: codes [group_k / 4][16][4].
QUIRE_INLINE void configure_tiles(int rows, int group_k) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = static_cast<uint16_t>(t == 4 || t == 5 ? group_k : 64);
    config.rows[t] = static_cast<uint8_t>(t < 6 ? rows : group_k / 4);
  }
  asm volatile("ldtilecfg %0" ::"m"(config));  // GCC's _tile_loadconfig names 8 of the 64 bytes
}

// Groups of a chunk whose codes and sums stay in L1; of kinds with units of several groups, two
// units.
inline constexpr int64_t kAmxChunkGroups = 18, kAmxUnitChunkGroups = 16;
template <class T>
using AmxScratch = IntScratch<T, kAmxChunkGroups>;

struct alignas(64) AmxSums {
  int32_t v[kAmxMostRows][16];
};
// Activations of one tile of rows, group by group, at the chunk's first group.
struct AmxRows {
  const int8_t* a;     // [group][kAmxMostRows][32]
  const float* scale;  // [group][kAmxMostRows]
  const float* sum;
};

// Even and odd steps use different tiles.
template <int odd>
QUIRE_INLINE void amx_multiply(const int8_t* a, const uint8_t* codes, AmxSums* sums) {
  if constexpr (odd == 0) {
    _tile_zero(0);
    _tile_loadd(4, a, 32);
    _tile_loadd(6, codes, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_stored(0, sums->v, 64);
  } else {
    _tile_zero(1);
    _tile_loadd(5, a, 32);
    _tile_loadd(7, codes, 64);
    _tile_dpbssd(1, 5, 7);
    _tile_stored(1, sums->v, 64);
  }
}

// The canonical float update of one step.
template <class T, int kRows>
QUIRE_INLINE void amx_update(const UnpackedSource<T>& source, const AmxRows& rows, int64_t step,
                             const AmxSums& dots, F32 (&sums)[kRows][1]) {
  const int64_t g = step / T::kParts;
  const auto group = source.at(g, 0);
  const F32 scale = group.scale(static_cast<int>(step % T::kParts));
  const float* a_scale = rows.scale + g * kAmxMostRows;
  QUIRE_UNROLL16 for (int r = 0; r < kRows; ++r) sums[r][0] =
      fma(mul(to_f32(load_i32(dots.v[r])), scale), set1(a_scale[r]), sums[r][0]);
  if constexpr (T::kHasMin) {
    const F32 minimum = group.minimum();
    const float* a_sum = rows.sum + g * kAmxMostRows;
    QUIRE_UNROLL16 for (int r = 0; r < kRows; ++r) sums[r][0] =
        fma(minimum, set1(a_sum[r]), sums[r][0]);
  }
}

// One tile of rows, strip after strip; the tile unit runs on into the next strip while the last one
// ends.
template <class T, int kRows>
void amx_tile(const UnpackedSource<T>& source, const AmxRows& rows, int64_t groups, int strips,
              const TileOutput& out) {
  constexpr int kStepBytes = 512 / T::kParts, kPartK = 32 / T::kParts;
  constexpr int kRing = kAmxAhead + 1;
  AmxSums dots[kRing];
  const int64_t steps = groups * T::kParts, all_steps = steps * strips;
  int64_t ahead = 0,
          ahead_step = 0;  // steps multiplied so far; the next one's number inside its strip
  const uint8_t* ahead_codes = source.codes;
  const auto multiply = [&]() __attribute__((always_inline)) {
    const int64_t group = ahead_step / T::kParts, part = ahead_step % T::kParts;
    const int8_t* a = rows.a + group * kAmxGroupBytes + part * kPartK;
    const uint8_t* codes = ahead_codes + group * kScratchStrips * 512 + part * kStepBytes;
    if (ahead % 2 == 0) {
      amx_multiply<0>(a, codes, &dots[ahead % kRing]);
    } else {
      amx_multiply<1>(a, codes, &dots[ahead % kRing]);
    }
    ++ahead;
    if (++ahead_step == steps) {
      ahead_step = 0;
      ahead_codes += 512;
    }
  };
  while (ahead < smaller(kAmxAhead, all_steps)) multiply();
  int64_t done = 0;
  for (int s = 0; s < strips; ++s) {
    const UnpackedSource<T> strip = source.strip(s);
    const TileOutput to = strips_right(out, s);
    F32 sums[kRows][1];
    start_sums(to, sums);
    for (int64_t step = 0; step < steps; ++step, ++done) {
      if (ahead < all_steps) multiply();
      amx_update<T, kRows>(strip, rows, step, dots[done % kRing], sums);
    }
    finish_sums(to, sums);
  }
}

template <PackedKind kind, class T>
QUIRE_INLINE void amx_unpack(const PackedSource<kind>& source, int64_t groups, int strips,
                             AmxScratch<T>* scratch) {
  const __m512i zero_code = _mm512_set1_epi8(static_cast<char>(Traits<kind>::kCodeZero));
  for (int64_t g = 0; g < groups; ++g) {
    for (int s = 0; s < strips; ++s) {
      const PackedGroup<kind> group = source.at(g, s);
      const int64_t i = g * kScratchStrips + s;
      QUIRE_UNROLL for (int j = 0; j < 8; ++j) store_u8(
          scratch->codes + i * 512 + 64 * j, U8{_mm512_sub_epi8(group.quad(j).v, zero_code)});
      for (int part = 0; part < T::kParts; ++part)
        store(scratch->scales + (i * T::kParts + part) * 16, group.scale(part));
      if constexpr (T::kHasMin) store(scratch->minimums + i * 16, group.minimum());
    }
  }
  asm volatile("" ::: "memory");  // tile loads do not say that they read memory
}

// Activations of a block of rows in the order that tiles read them: [tile][group][row of the tile].
inline constexpr int64_t kAmxSlots = 1024;  // tiles * groups: up to 640 KB, in L2
struct alignas(64) AmxActivations {
  int8_t a[kAmxSlots * kAmxGroupBytes];
  float scale[kAmxSlots * kAmxMostRows];
  float sum[kAmxSlots * kAmxMostRows];
};
inline void gather_activations(const MatmulArgs& args, int64_t row, int64_t rows, int64_t groups,
                               AmxActivations* out) {
  int64_t slot = 0;
  for (int64_t r = 0, tile; r < rows; r += tile, slot += groups) {
    tile = even_rows(rows - r, kAmxMostRows);
    for (int64_t i = 0; i < tile; ++i) {
      const int64_t at = (row + r + i) * args.scale_stride;
      const int8_t* a = static_cast<const int8_t*>(args.a) + (row + r + i) * args.a_stride;
      for (int64_t g = 0; g < groups; ++g) {
        __builtin_memcpy(out->a + (slot + g) * kAmxGroupBytes + 32 * i, a + 32 * g, 32);
        out->scale[(slot + g) * kAmxMostRows + i] = args.a_scale[at + g];
        out->sum[(slot + g) * kAmxMostRows + i] = args.a_sum[at + g];
      }
    }
  }
  asm volatile("" ::: "memory");  // tile loads do not say that they read memory
}

// One chunk of K of two strips: unpacked once, multiplied by every tile of the block of rows.
template <PackedKind kind, class T>
struct AmxBlock {
  const MatmulArgs& args;
  int64_t groups, row, rows;
  AmxActivations* activations;
  AmxScratch<T>* scratch;
  float* carry;
  int64_t configured = 0;

  void chunk(const Panel& panel, int64_t strip, int64_t g, int64_t count) {
    using K = Traits<kind>;
    const int64_t unit_stride = panel.strips * K::kUnitBytes;
    const int strips = static_cast<int>(smaller(kScratchStrips, panel.strips - strip));
    amx_unpack<kind, T>(
        {panel.base + g / K::kGroups * unit_stride + strip * K::kUnitBytes, unit_stride, {}}, count,
        strips, scratch);
    int64_t slot = g;
    for (int64_t r = 0, tile; r < rows; r += tile, slot += groups) {
      tile = even_rows(rows - r, kAmxMostRows);
      if (tile != configured) configure_tiles(static_cast<int>(tile), 32 / T::kParts);
      configured = tile;
      const AmxRows at{activations->a + slot * kAmxGroupBytes,
                       activations->scale + slot * kAmxMostRows,
                       activations->sum + slot * kAmxMostRows};
      const int64_t column = 16 * strip;
      const TileOutput out =
          output_at(args, row + r, panel.column + column, carry + r * kCarryStride + column, g == 0,
                    g + count == groups);
      with_rows<kAmxLeastTile, kAmxMostRows>(tile, [&]<int kRows>() {
        const UnpackedSource<T> source{
            scratch->codes, scratch->scales, scratch->minimums, scratch->offsets, {}};
        amx_tile<T, kRows>(source, at, count, strips, out);
      });
    }
  }
};

template <PackedKind kind>
void amx_matmul(const MatmulArgs& args) {
  using K = Traits<kind>;
  using T = UnpackedTraits<false, K::kParts, K::kHasMin, 0>;
  const int64_t units = (args.shape.k + 32 * K::kGroups - 1) / (32 * K::kGroups),
                groups = units * K::kGroups;
  if (args.m < kAmxLeastRows || groups > kAmxSlots) return int_matmul<kind>(args);
  constexpr int64_t kMostChunk = K::kGroups > 1 ? kAmxUnitChunkGroups : kAmxChunkGroups;
  alignas(64) float carry[kRowBlock * kCarryStride];
  AmxActivations activations;
  AmxScratch<T> scratch;
  const int64_t most_rows = smaller(kRowBlock, kAmxSlots / groups * kAmxMostRows);
  for (int64_t row = 0, rows; row < args.m; row += rows) {
    rows = even_rows(args.m - row, most_rows);
    gather_activations(args, row, rows, groups, &activations);
    AmxBlock<kind, T> block{args, groups, row, rows, &activations, &scratch, carry};
    for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
      const Panel panel = panel_at<K::kUnitBytes>(args, p, units);
      for (int64_t g = 0, count; g < groups; g += count) {
        count =
            K::kGroups > 1 ? smaller(groups - g, kMostChunk) : even_rows(groups - g, kMostChunk);
        for (int64_t s = 0; s < panel.strips; s += kScratchStrips) block.chunk(panel, s, g, count);
      }
    }
  }
  _tile_release();
}

}  // namespace quire::QUIRE_ISA
