// Where a tile's sums go: to C at the end of K, or to a carry buffer between two chunks of K.
#pragma once

#include "kernels/cpu/tiles/unroll.h"

namespace quire::QUIRE_ISA {

inline constexpr int kCarryStride = 64;  // one panel's width

struct TileOutput {
  float* c;  // [rows][ldc], at the tile's first column
  int64_t ldc;
  const float* bias;  // at the tile's first column, or null
  int64_t columns;    // columns of C from here to its end
  float* carry;       // [rows][kCarryStride], at the tile's first column
  bool accumulate;
  bool first, last;  // chunk of K
};

template <int kRows, int kStrips>
QUIRE_INLINE void start_sums(const TileOutput& out, F32 (&sums)[kRows][kStrips]) {
  QUIRE_UNROLL16 for (int r = 0; r < kRows; ++r) QUIRE_UNROLL for (int s = 0; s < kStrips; ++s) {
    sums[r][s] = out.first ? zero() : load(out.carry + r * kCarryStride + 16 * s);
  }
}

// Asks for the lines that a tile is going to write, which its stores would wait for.
QUIRE_INLINE void fetch_output(const TileOutput& out, int64_t rows, int64_t strips) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = 0; s < strips; ++s) __builtin_prefetch(out.c + r * out.ldc + 16 * s, 1);
}

// One strip of one row at the end of K.
QUIRE_INLINE void finish_strip(const TileOutput& out, int row, int strip, F32 sum) {
  const int64_t left = out.columns - 16 * strip;
  if (left <= 0) return;  // a strip that only fills up a tile
  const int lanes = left < 16 ? static_cast<int>(left) : 16;
  float* c = out.c + row * out.ldc + 16 * strip;
  if (out.bias) sum = add(sum, load_n(out.bias + 16 * strip, lanes));
  if (out.accumulate) sum = add(load_n(c, lanes), sum);
  store_n(c, sum, lanes);
}

template <int kRows, int kStrips>
QUIRE_INLINE void finish_sums(const TileOutput& out, F32 (&sums)[kRows][kStrips]) {
  const bool plain = out.last && !out.bias && !out.accumulate && out.columns >= 16 * kStrips;
  if (plain || !out.last) {  // whole vectors, one after the other
    float* to = out.last ? out.c : out.carry;
    const int64_t stride = out.last ? out.ldc : kCarryStride;
    QUIRE_UNROLL16 for (int r = 0; r < kRows; ++r) QUIRE_UNROLL for (int s = 0; s < kStrips; ++s)
        store(to + r * stride + 16 * s, sums[r][s]);
    return;
  }
  QUIRE_UNROLL16 for (int r = 0; r < kRows; ++r) QUIRE_UNROLL for (int s = 0; s < kStrips; ++s)
      finish_strip(out, r, s, sums[r][s]);
}

// The same rows, `strips` strips to the right.
QUIRE_INLINE TileOutput strips_right(TileOutput out, int64_t strips) {
  out.c += 16 * strips;
  out.carry += 16 * strips;
  out.columns -= 16 * strips;
  if (out.bias) out.bias += 16 * strips;
  return out;
}
// The same columns, `rows` rows further down.
QUIRE_INLINE TileOutput rows_down(TileOutput out, int64_t rows) {
  out.c += rows * out.ldc;
  out.carry += rows * kCarryStride;
  return out;
}

}  // namespace quire::QUIRE_ISA
