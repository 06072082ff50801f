// Integer kinds on the AMX tile unit: the exact int32 sums of each group come from tdpbssd / tdpbsud, the float
// update from the same instructions in the same order as in int_tile, so the bits equal the vpdpbusd path and the
// two may share one matrix by number of rows.
//
// One step multiplies kRows rows x 2 strips x one group (32 k, 16 for kQ6K): tiles of up to 12 x 16 int32. A
// group's sums are stored to L1 and added one step later, while the tile unit works on the next group.
//   registers: 12 x 2 f32 sums + 2 scales + 2 minimums + 2 broadcasts + 2 temporaries = 32
//   port 0/5 per output vector: convert, multiply, fma (+ fma of the minimum) = 3-4, so about 1.5-2 cycles for
//   16 x 32 products, where vpdpbusd alone takes 4
// Codes are unpacked as signed bytes (q - zero), so no sum of activations is needed; kinds with zero 0 stay
// unsigned bytes, which are the same bits.
#pragma once

#include "kernels/cpu/tiles/int_matmul.h"

namespace quire::QUIRE_ISA {

inline constexpr int kAmxMostRows = 12;
inline constexpr int64_t kAmxLeastRows = 8;  // below, vpdpbusd is as fast
inline constexpr int kAmxStrips = 2;

// The memory operand of ldtilecfg.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
// Tiles 0-3: sums [rows][16] (two strips, two groups in flight); 4-5: activations [rows][group_k];
// 6-7: codes [group_k / 4][16][4].
QUIRE_INLINE void configure_tiles(int rows, int group_k) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = static_cast<uint16_t>(t == 4 || t == 5 ? group_k : 64);
    config.rows[t] = static_cast<uint8_t>(t < 6 ? rows : group_k / 4);
  }
  asm volatile("ldtilecfg %0" ::"m"(config));  // GCC's _tile_loadconfig names 8 of the 64 bytes
}

// Sums of one group for two strips.
struct alignas(64) AmxSums {
  int32_t v[kAmxStrips][kAmxMostRows][16];
};

template <int phase>
QUIRE_INLINE void amx_multiply(const int8_t* a, int64_t a_stride, const uint8_t* codes, AmxSums* sums) {
  // codes: [strip][8 quads][64]; a part of a group is the first or the last half of the quads.
  if constexpr (phase == 0) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(4, a, a_stride);
    _tile_loadd(6, codes, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, codes + 512, 64);
    _tile_dpbssd(1, 4, 7);
    _tile_stored(0, sums->v[0], 64);
    _tile_stored(1, sums->v[1], 64);
  } else {
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(5, a, a_stride);
    _tile_loadd(6, codes, 64);
    _tile_dpbssd(2, 5, 6);
    _tile_loadd(7, codes + 512, 64);
    _tile_dpbssd(3, 5, 7);
    _tile_stored(2, sums->v[0], 64);
    _tile_stored(3, sums->v[1], 64);
  }
}

// The canonical float update of one step.
template <class T, int kRows>
QUIRE_INLINE void amx_update(const UnpackedSource<T>& source, const IntRows& rows, int64_t step,
                             const AmxSums& dots, F32 (&sums)[kRows][kAmxStrips]) {
  const int64_t g = step / T::kParts;
  const int part = static_cast<int>(step % T::kParts);
  const F32 scale0 = source.at(g, 0).scale(part), scale1 = source.at(g, 1).scale(part);
  QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
    const F32 a_scale = set1(rows.scale[r * rows.scale_stride + g]);
    sums[r][0] = fma(mul(to_f32(load_i32(dots.v[0][r])), scale0), a_scale, sums[r][0]);
    sums[r][1] = fma(mul(to_f32(load_i32(dots.v[1][r])), scale1), a_scale, sums[r][1]);
  }
  if constexpr (T::kHasMin) {
    const F32 minimum0 = source.at(g, 0).minimum(), minimum1 = source.at(g, 1).minimum();
    QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
      const F32 a_sum = set1(rows.sum[r * rows.scale_stride + g]);
      sums[r][0] = fma(minimum0, a_sum, sums[r][0]);
      sums[r][1] = fma(minimum1, a_sum, sums[r][1]);
    }
  }
}

template <class T, int kRows>
void amx_tile(const UnpackedSource<T>& source, const IntRows& rows, int64_t groups, const TileOutput& out) {
  constexpr int kStepK = 32 / T::kParts, kStepBytes = 512 / T::kParts;
  AmxSums dots[2];
  F32 sums[kRows][kAmxStrips];
  start_sums(out, sums);
  const auto codes_at = [&](int64_t step) {
    return source.codes + step / T::kParts * kAmxStrips * 512 + step % T::kParts * kStepBytes;
  };
  const int64_t steps = groups * T::kParts;
  amx_multiply<0>(rows.a, rows.a_stride, source.codes, &dots[0]);
  int64_t step = 0;
  for (; step + 2 <= steps; step += 2) {
    amx_multiply<1>(rows.a + (step + 1) * kStepK, rows.a_stride, codes_at(step + 1), &dots[1]);
    amx_update<T, kRows>(source, rows, step, dots[0], sums);
    if (step + 2 < steps)
      amx_multiply<0>(rows.a + (step + 2) * kStepK, rows.a_stride, codes_at(step + 2), &dots[0]);
    amx_update<T, kRows>(source, rows, step + 1, dots[1], sums);
  }
  if (step < steps) amx_update<T, kRows>(source, rows, step, dots[0], sums);
  finish_sums(out, sums);
}

template <class T>
void amx_rows(int64_t count, const UnpackedSource<T>& source, const IntRows& rows, int64_t groups,
              const TileOutput& out) {
  switch (count) {
    case 5: return amx_tile<T, 5>(source, rows, groups, out);
    case 6: return amx_tile<T, 6>(source, rows, groups, out);
    case 7: return amx_tile<T, 7>(source, rows, groups, out);
    case 8: return amx_tile<T, 8>(source, rows, groups, out);
    case 9: return amx_tile<T, 9>(source, rows, groups, out);
    case 10: return amx_tile<T, 10>(source, rows, groups, out);
    case 11: return amx_tile<T, 11>(source, rows, groups, out);
    default: return amx_tile<T, 12>(source, rows, groups, out);
  }
}

template <PackedKind kind, class T>
QUIRE_INLINE void amx_unpack(const PackedSource<kind>& source, int64_t groups, int strips, IntScratch<T>* scratch) {
  const __m512i zero_code = _mm512_set1_epi8(static_cast<char>(Traits<kind>::kCodeZero));
  for (int64_t g = 0; g < groups; ++g) {
    for (int s = 0; s < strips; ++s) {
      const PackedGroup<kind> group = source.at(g, s);
      const int64_t i = g * kScratchStrips + s;
      QUIRE_UNROLL for (int j = 0; j < 8; ++j)
        store_u8(scratch->codes + i * 512 + 64 * j, U8{_mm512_sub_epi8(group.quad(j).v, zero_code)});
      for (int part = 0; part < T::kParts; ++part)
        store(scratch->scales + (i * T::kParts + part) * 16, group.scale(part));
      if constexpr (T::kHasMin) store(scratch->minimums + i * 16, group.minimum());
    }
  }
  asm volatile("" ::: "memory");  // the tile loads below do not say that they read memory
}

// Two strips side by side; the second one of an odd panel is a copy of nothing: its sums are not stored.
template <PackedKind kind>
void amx_matmul(const MatmulArgs& args) {
  using K = Traits<kind>;
  using T = UnpackedTraits<false, K::kParts, K::kHasMin, 0>;
  if (args.m < kAmxLeastRows) return int_matmul<kind>(args);
  static_assert(kScratchStrips == kAmxStrips);
  IntScratch<T> scratch;
  alignas(64) float carry[kRowBlock * kCarryStride];
  const int64_t groups = (args.shape.k + 32 * K::kGroups - 1) / (32 * K::kGroups) * K::kGroups;
  int64_t configured = 0;
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<K::kUnitBytes>(args, p, groups / K::kGroups);
    const int64_t unit_stride = panel.strips * K::kUnitBytes;
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      for (int64_t g = 0; g < groups; g += kChunkGroups) {
        const int64_t count = smaller(kChunkGroups, groups - g);
        for (int64_t s = 0; s < panel.strips; s += kScratchStrips) {
          const int strips = static_cast<int>(smaller(kScratchStrips, panel.strips - s));
          if (strips < kScratchStrips) __builtin_memset(&scratch, 0, sizeof scratch);
          amx_unpack<kind, T>({panel.base + g / K::kGroups * unit_stride + s * K::kUnitBytes, unit_stride},
                              count, strips, &scratch);
          for (int64_t r = 0, tile; r < block; r += tile) {
            tile = even_rows(block - r, kAmxMostRows);
            if (tile != configured) configure_tiles(static_cast<int>(tile), 32 / K::kParts);
            configured = tile;
            amx_rows<T>(tile, {scratch.codes, scratch.scales, scratch.minimums},
                        rows_at(args, row + r, g, nullptr, 0), count,
                        output_at(args, row + r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s, g == 0,
                                  g + count == groups));
          }
        }
      }
    }
  }
  _tile_release();
}

}  // namespace quire::QUIRE_ISA
