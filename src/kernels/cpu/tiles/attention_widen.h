// K and V of a tile of 64 positions, widened to f32 once for many query vectors.
#pragma once

#include "kernels/cpu/tiles/elementwise.h"
#include "kernels/cpu/tiles/vector.h"

namespace quire::QUIRE_ISA {

QUIRE_INLINE int64_t pad16(int64_t n) { return (n + 15) / 16 * 16; }
QUIRE_INLINE int64_t lower(int64_t a, int64_t b) { return a < b ? a : b; }
QUIRE_INLINE int64_t upper(int64_t a, int64_t b) { return a > b ? a : b; }

struct AttentionTile {
  float* k;       // [head_dim][64]
  float* v;       // [64][padded v_head_dim]
  float* q;       // scaled: [vectors][q_stride]
  float* scores;  // [kMostRows][64]
  int64_t head_dim, v_head_dim, v_padded, q_stride;
};

// Four values of four lanes; any instruction set turns them in registers.
typedef float Quad __attribute__((vector_size(16)));
QUIRE_INLINE Quad load_quad(const float* p) {
  Quad q;
  __builtin_memcpy(&q, p, sizeof q);
  return q;
}

// v[key][d] = k[d][key] for keys [begin, end) of the tile and the first `dims` dimensions; up to
// three neighbours of the keys come along.
static void values_from_keys(const AttentionTile& t, int64_t dims, int64_t begin, int64_t end) {
  int64_t d = 0;
  for (; d + 4 <= dims; d += 4) {
    const float* const k = t.k + d * kKvTile;
    for (int64_t key = begin / 4 * 4; key < end; key += 4) {
      const Quad a = load_quad(k + key), b = load_quad(k + kKvTile + key);
      const Quad c = load_quad(k + 2 * kKvTile + key), e = load_quad(k + 3 * kKvTile + key);
      const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Quad ce_low = __builtin_shufflevector(c, e, 0, 4, 1, 5);
      const Quad ce_high = __builtin_shufflevector(c, e, 2, 6, 3, 7);
      const Quad lines[4] = {__builtin_shufflevector(ab_low, ce_low, 0, 1, 4, 5),
                             __builtin_shufflevector(ab_low, ce_low, 2, 3, 6, 7),
                             __builtin_shufflevector(ab_high, ce_high, 0, 1, 4, 5),
                             __builtin_shufflevector(ab_high, ce_high, 2, 3, 6, 7)};
      for (int i = 0; i < 4; ++i)
        __builtin_memcpy(t.v + (key + i) * t.v_padded + d, &lines[i], sizeof(Quad));
    }
  }
  for (; d < dims; ++d) {
    for (int64_t key = begin; key < end; ++key) t.v[key * t.v_padded + d] = t.k[d * kKvTile + key];
  }
}

// Widens the keys [begin, end) of the tile that starts at `tile`. Neighbours inside the same
// sixteen (or eight, where blocks are no multiple of 16) come along: their scores are masked, and
// their values are not read.
template <class Kv>
static void widen_tile(const KvHead& kv, int64_t tile, int64_t begin, int64_t end,
                       const AttentionTile& out) {
  using Type = typename Kv::Type;
  const int step = kv.block_size % 16 == 0 ? 16 : 8;
  for (int64_t pos = begin / step * step; pos < end;) {
    const int64_t offset = pos % kv.block_size;
    const int64_t run = lower((end - pos + step - 1) / step * step, kv.block_size - offset);
    const Type* const block =
        reinterpret_cast<const Type*>(kv.base + kv.blocks[pos / kv.block_size] * kv.block_stride);
    const Type* k = block + offset;
    float* to = out.k + (pos - tile);
    for (int64_t d = 0; d < out.head_dim; ++d, k += kv.block_size, to += kKvTile) {
      if (step == 16) {
        for (int64_t i = 0; i < run; i += 16) store(to + i, Kv::get(k + i));
      } else {
        for (int64_t i = 0; i < run; i += 8) store_n(to + i, Kv::get_n(k + i, 8), 8);
      }
    }
    if (!kv.v_in_k) {
      const Type* const values = block + static_cast<int64_t>(kv.head_dim) * kv.block_size;
      for (int64_t p = upper(pos, begin); p < lower(pos + run, end); ++p) {
        const Type* const v = values + (p % kv.block_size) * kv.v_head_dim;
        float* const line = out.v + (p - tile) * out.v_padded;
        int64_t d = 0;
        for (; d + 16 <= kv.v_head_dim; d += 16) store(line + d, Kv::get(v + d));
        if (d < kv.v_head_dim) store(line + d, Kv::get_n(v + d, lanes_at(kv.v_head_dim, d)));
      }
    }
    pos += run;
  }
  if (kv.v_in_k) values_from_keys(out, kv.v_head_dim, begin - tile, end - tile);
}

// The same for int8 codes with a scale per token. Sixteen codes are read where fewer are wanted:
// the scales lie behind them.
static void widen_tile_i8(const KvHead& kv, int64_t tile, int64_t begin, int64_t end,
                          const AttentionTile& out) {
  const int step = kv.block_size % 16 == 0 ? 16 : 8;
  for (int64_t pos = begin / step * step; pos < end;) {
    const int64_t offset = pos % kv.block_size;
    const int64_t run = lower((end - pos + step - 1) / step * step, kv.block_size - offset);
    const auto* const block =
        reinterpret_cast<const int8_t*>(kv.base + kv.blocks[pos / kv.block_size] * kv.block_stride);
    const auto* const scales = reinterpret_cast<const float*>(block + kv_scales_offset(kv));
    for (int64_t i = 0; i < run; i += step) {
      const F32 scale = load_n(scales + offset + i, step);
      const int8_t* k = block + offset + i;
      float* to = out.k + (pos - tile) + i;
      for (int64_t d = 0; d < out.head_dim; ++d, k += kv.block_size, to += kKvTile)
        store_n(to, mul(from_i8(k), scale), step);
    }
    const int8_t* const values = block + static_cast<int64_t>(kv.head_dim) * kv.block_size;
    for (int64_t p = upper(pos, begin); !kv.v_in_k && p < lower(pos + run, end); ++p) {
      const int64_t at = p % kv.block_size;
      const int8_t* const v = values + at * kv.v_head_dim;
      const F32 scale = set1(scales[kv.block_size + at]);
      float* const line = out.v + (p - tile) * out.v_padded;
      int64_t d = 0;
      for (; d + 16 <= kv.v_head_dim; d += 16) store(line + d, mul(from_i8(v + d), scale));
      if (d < kv.v_head_dim) {
        int8_t rest[16] = {};
        for (int64_t i = 0; d + i < kv.v_head_dim; ++i) rest[i] = v[d + i];
        store(line + d, mul(from_i8(rest), scale));
      }
    }
    pos += run;
  }
  if (kv.v_in_k) values_from_keys(out, kv.v_head_dim, begin - tile, end - tile);
}

}  // namespace quire::QUIRE_ISA
