// The inner product of float weights: a tile of kRows rows x kStrips strips over a chunk of K, k
// ascending, one fused multiply-add (or one bf16 pair product) per step and output.
#pragma once

#include "kernels/cpu/packed.h"
#include "kernels/cpu/tiles/output.h"

namespace quire::QUIRE_ISA {

template <PackedKind kind>
inline constexpr bool is_float_kind = kind < PackedKind::kQ8;
// Rows of one code per lane behind 16 scales.
template <PackedKind kind>
inline constexpr int kFloat8UnitK = kind == PackedKind::kF8x128 ? 128 : 32;
template <PackedKind kind>
inline constexpr int kFloat8UnitBytes = 64 + 16 * kFloat8UnitK<kind>;
template <PackedKind kind>
inline constexpr int kFloatUnitBytes = kind == PackedKind::kF32 ? 128 : 64;

// Units (two k) of a panel or of a scratch of f32.
struct FloatSource {
  const uint8_t* base;
  int64_t unit_stride;  // strips side by side * kFloatUnitBytes
  FetchAhead ahead{};   // of packed weights
};
QUIRE_INLINE void split_pairs(I32 both, F32* even, F32* odd) {
  *even = as_f32(shl<16>(both));
  *odd = as_f32(bit_and(both, set1_i32(static_cast<int32_t>(0xffff0000u))));
}
// The weights of k and k + 1 of one strip, as f32.
template <PackedKind kind>
QUIRE_INLINE void load_pair(const uint8_t* unit, F32* even, F32* odd) {
  if constexpr (kind == PackedKind::kF32) {
    *even = load(reinterpret_cast<const float*>(unit));
    *odd = load(reinterpret_cast<const float*>(unit + 64));
  } else if constexpr (kind == PackedKind::kF16) {
    *even = load_f16(reinterpret_cast<const uint16_t*>(unit));
    *odd = load_f16(reinterpret_cast<const uint16_t*>(unit + 32));
  } else {
    split_pairs(load_i32(reinterpret_cast<const int32_t*>(unit)), even, odd);
  }
}

// a: [kRows] rows of f32 at the chunk's first k. Registers, for zmm: 6 x 4 = 24 sums, 4 weights of
// one k, 1-2 broadcasts: 10 loads for 24 multiply-adds, where 6 x 2 has 8 for 12. Packed weights of
// two bytes come in pairs of k, so that 4 x 4 is the most: 16 sums, 8 weights.
template <PackedKind kind, int kRows, int kStrips>
QUIRE_INLINE void float_tile(const FloatSource& source, const float* a, int64_t a_stride,
                             int64_t units, const TileOutput& out) {
  F32 sums[kRows][kStrips];
  start_sums(out, sums);
  for (int64_t u = 0; u < units; ++u) {
    const uint8_t* unit = source.base + u * source.unit_stride;
    if constexpr (kind == PackedKind::kF32) {
      QUIRE_UNROLL for (int i = 0; i < 2; ++i) {
        F32 weights[kStrips];
        QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) weights[s] =
            load(reinterpret_cast<const float*>(unit + s * kFloatUnitBytes<kind> + 64 * i));
        QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
          const F32 x = set1(a[r * a_stride + 2 * u + i]);
          QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) sums[r][s] =
              fma(x, weights[s], sums[r][s]);
        }
      }
      continue;
    }
    source.ahead.fetch(u);
    F32 even[kStrips], odd[kStrips];
    QUIRE_UNROLL for (int s = 0; s < kStrips; ++s)
        load_pair<kind>(unit + s * kFloatUnitBytes<kind>, &even[s], &odd[s]);
    QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
      const F32 x = set1(a[r * a_stride + 2 * u]), y = set1(a[r * a_stride + 2 * u + 1]);
      QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) sums[r][s] =
          fma(y, odd[s], fma(x, even[s], sums[r][s]));
    }
  }
  finish_sums(out, sums);
}

// Pair u of k.
template <int kRows, int kStrips>
QUIRE_INLINE void bf16_step(const FloatSource& source, const uint16_t* a, int64_t a_stride,
                            int64_t u, F32 (&sums)[kRows][kStrips]) {
  I32 weights[kStrips];
  QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) weights[s] =
      load_i32(reinterpret_cast<const int32_t*>(source.base + u * source.unit_stride + 64 * s));
  QUIRE_UNROLL for (int r = 0; r < kRows; ++r) {
    const I32 pair = as_lanes(quad(a + r * a_stride + 2 * u));
    QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) sums[r][s] =
        dot_bf16(sums[r][s], weights[s], pair);
  }
}

// a: rows of bf16. Registers, for zmm with vdpbf16ps: 6 x 4 = 24 sums, 4 weights, 1-2 broadcasts;
// each pair of k loads 4 weight vectors and 6 broadcasts for 24 products.
template <int kRows, int kStrips>
QUIRE_INLINE void bf16_tile(const FloatSource& source, const uint16_t* a, int64_t a_stride,
                            int64_t units, const TileOutput& out) {
  F32 sums[kRows][kStrips];
  start_sums(out, sums);
  if (source.ahead.lines > 0) {
    for (int64_t u = 0; u < units; ++u) {
      source.ahead.fetch(u);
      bf16_step(source, a, a_stride, u, sums);
    }
  } else {
    for (int64_t u = 0; u < units; ++u) bf16_step(source, a, a_stride, u, sums);
  }
  finish_sums(out, sums);
}

}  // namespace quire::QUIRE_ISA
