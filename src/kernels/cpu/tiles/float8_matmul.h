// Matrix products of float8 weights with bf16 activations: a code is exact as a bf16, so pairs of k
// are multiplied as bf16 x bf16; the f32 sums of a unit are then added times its scale.
//
// Few rows read codes as they are packed. More rows: a chunk of K of two strips is widened to bf16
// pairs in a scratch that stays in L1. Sums between chunks, which are whole units, wait in a carry
// buffer.
#pragma once

#include "kernels/cpu/tiles/float_matmul.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kFloat8ChunkK = 256;  // 16 KB of pairs for two strips
inline constexpr int64_t kFloat8DirectRows = kVectorRegisters >= 32 ? 4 : 1;
inline constexpr int kFloat8TileRows = kVectorRegisters >= 32 ? 6 : 3;
inline constexpr int kFloat8TileStrips = kVectorRegisters >= 32 ? 2 : 1;

// Units as they lie in memory.
template <PackedKind kind>
struct Float8Packed {
  const uint8_t* base;
  int64_t unit_stride;
  QUIRE_INLINE const uint8_t* at(int64_t unit, int strip) const {
    return base + unit * unit_stride + strip * kFloat8UnitBytes<kind>;
  }
  // Fetches the same pair one chunk on.
  QUIRE_INLINE I32 pair(int64_t unit, int strip, int64_t i) const {
    const uint8_t* codes = at(unit, strip) + 64 + 32 * i;
    __builtin_prefetch(codes + kFloat8ChunkK / kFloat8UnitK<kind> * unit_stride, 0, 2);
    return load_e4m3_pairs(codes);
  }
  QUIRE_INLINE F32 scale(int64_t unit, int strip) const {
    return load(reinterpret_cast<const float*>(at(unit, strip)));
  }
  QUIRE_INLINE Float8Packed strips_right(int64_t strips) const {
    return {base + strips * kFloat8UnitBytes<kind>, unit_stride};
  }
};
// A chunk of two strips, widened.
template <PackedKind kind>
struct Float8Scratch {
  static constexpr int64_t kPairs = kFloat8ChunkK / 2;
  alignas(64) int32_t pairs[kPairs * kScratchStrips * 16];  // [k / 2][strip][16] of two bf16
  alignas(64) float scales[kFloat8ChunkK / kFloat8UnitK<kind> * kScratchStrips * 16];
};
template <PackedKind kind>
struct Float8Widened {
  const int32_t* pairs;
  const float* scales;
  QUIRE_INLINE I32 pair(int64_t unit, int strip, int64_t i) const {
    const int64_t at = unit * (kFloat8UnitK<kind> / 2) + i;
    return load_i32(pairs + (at * kScratchStrips + strip) * 16);
  }
  QUIRE_INLINE F32 scale(int64_t unit, int strip) const {
    return load(scales + (unit * kScratchStrips + strip) * 16);
  }
  QUIRE_INLINE Float8Widened strips_right(int64_t strips) const {
    return {pairs + strips * 16, scales + strips * 16};
  }
};

// a: rows of bf16 at the chunk's first k. Registers, for zmm: 6 x 2 sums twice, 2 weights, 1
// broadcast.
template <PackedKind kind, class Source, int kRows, int kStrips>
void float8_tile(const Source& source, const uint16_t* a, int64_t a_stride, int64_t units,
                 const TileOutput& out) {
  constexpr int64_t kPairs = kFloat8UnitK<kind> / 2;
  F32 sums[kRows][kStrips];
  start_sums(out, sums);
  for (int64_t u = 0; u < units; ++u) {
    F32 dots[kRows][kStrips];
    QUIRE_UNROLL16 for (int r = 0; r < kRows; ++r) QUIRE_UNROLL for (int s = 0; s < kStrips; ++s)
        dots[r][s] = zero();
    for (int64_t i = 0; i < kPairs; ++i) {
      I32 weights[kStrips];
      QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) weights[s] = source.pair(u, s, i);
      QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
        const I32 x = as_lanes(quad(a + r * a_stride + 2 * (u * kPairs + i)));
        QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) dots[r][s] =
            dot_bf16(dots[r][s], weights[s], x);
      }
    }
    QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) {
      const F32 scale = source.scale(u, s);
      QUIRE_UNROLL for (int r = 0; r < kRows; ++r) sums[r][s] = fma(dots[r][s], scale, sums[r][s]);
    }
  }
  finish_sums(out, sums);
}

template <PackedKind kind, class Source, int kRows>
QUIRE_INLINE void float8_strips(Source source, int64_t strips, const uint16_t* a, int64_t a_stride,
                                int64_t units, TileOutput out) {
  constexpr int kWide = kFloat8TileStrips;
  while (strips > 0) {
    const int64_t by = strips >= kWide ? kWide : 1;
    by == kWide ? float8_tile<kind, Source, kRows, kWide>(source, a, a_stride, units, out)
                : float8_tile<kind, Source, kRows, 1>(source, a, a_stride, units, out);
    source = source.strips_right(by);
    out = strips_right(out, by);
    strips -= by;
  }
}

template <PackedKind kind>
QUIRE_INLINE void widen_float8(const Float8Packed<kind>& source, int64_t units, int64_t strips,
                               Float8Scratch<kind>* scratch) {
  constexpr int64_t kPairs = kFloat8UnitK<kind> / 2;
  for (int64_t u = 0; u < units; ++u) {
    for (int s = 0; s < strips; ++s) {
      store(scratch->scales + (u * kScratchStrips + s) * 16, source.scale(u, s));
      for (int64_t i = 0; i < kPairs; ++i)
        store_i32(scratch->pairs + ((u * kPairs + i) * kScratchStrips + s) * 16,
                  source.pair(u, s, i));
    }
  }
}

template <PackedKind kind>
void float8_matmul(const MatmulArgs& args) {
  constexpr int64_t kUnitK = kFloat8UnitK<kind>, kBytes = kFloat8UnitBytes<kind>;
  Float8Scratch<kind> scratch;
  alignas(64) float carry[kRowBlock * kCarryStride];
  const int64_t units = (args.shape.k + kUnitK - 1) / kUnitK;
  const bool direct = args.m <= kFloat8DirectRows;
  const int64_t chunk = direct ? units : kFloat8ChunkK / kUnitK;
  const auto* a = static_cast<const uint16_t*>(args.a);
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<static_cast<int>(kBytes)>(args, p, units);
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      for (int64_t u = 0; u < units; u += chunk) {
        const int64_t count = smaller(chunk, units - u);
        const Float8Packed<kind> packed{panel.base + u * panel.strips * kBytes,
                                        panel.strips * kBytes};
        if (direct) {
          const TileOutput out = output_at(args, 0, panel.column, carry, true, true);
          with_rows<1, kFloat8DirectRows>(args.m, [&]<int kRows>() {
            float8_strips<kind, Float8Packed<kind>, kRows>(packed, panel.strips, a, args.a_stride,
                                                           count, out);
          });
          continue;
        }
        for (int64_t s = 0; s < panel.strips; s += kScratchStrips) {
          const int64_t strips = smaller(kScratchStrips, panel.strips - s);
          widen_float8(packed.strips_right(s), count, strips, &scratch);
          for (int64_t r = 0, tile; r < block; r += tile) {
            tile = even_rows(block - r, kFloat8TileRows);
            const TileOutput out =
                output_at(args, row + r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s,
                          u == 0, u + count == units);
            with_rows<1, kFloat8TileRows>(tile, [&]<int kRows>() {
              float8_strips<kind, Float8Widened<kind>, kRows>(
                  {scratch.pairs, scratch.scales}, strips,
                  a + (row + r) * args.a_stride + u * kUnitK, args.a_stride, count, out);
            });
          }
        }
      }
    }
  }
}

}  // namespace quire::QUIRE_ISA
