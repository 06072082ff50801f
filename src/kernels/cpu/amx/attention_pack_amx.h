// Queries, K and V of attention in the order that AMX tiles of bf16 read them. A tile is 16 rows of
// 64 bytes, one kilobyte; pairs of what is summed over lie side by side.
#pragma once

#include "kernels/cpu/tiles/attention_softmax.h"
#include "kernels/cpu/tiles/unroll.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kTileHalves = 512;  // bf16 numbers of a tile
inline constexpr __mmask32 kOddHalves = 0xaaaaaaaa;

// The high 16 bits of each lane of `even`, and beside them those of `odd`.
QUIRE_INLINE __m512i high_halves(__m512i even, __m512i odd) {
  return _mm512_mask_blend_epi16(kOddHalves, _mm512_srli_epi32(even, 16), odd);
}
QUIRE_INLINE __m512i low_halves(__m512i even, __m512i odd) {
  return _mm512_mask_blend_epi16(kOddHalves, even, _mm512_slli_epi32(odd, 16));
}
// To the nearest bf16 by adding half of its last place: the high half is what counts then.
QUIRE_INLINE __m512i rounded_to_high(__m512 v) {
  return _mm512_add_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x8000));
}
QUIRE_INLINE __m512 high_part(__m512i v) {
  return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}
QUIRE_INLINE void store_line(uint16_t* p, __m512i v) { _mm512_storeu_si512(p, v); }

// One query vector, scaled, as the sum of two bf16: `high` and `low` have a tile per 32 dimensions,
// two tiles apart. Their errors are 2^-17 of a dimension's value.
QUIRE_INLINE void pack_query(const float* q, float scale, int64_t head_dim, uint16_t* high) {
  for (int64_t d = 0; d < head_dim; d += 32, high += 2 * kTileHalves) {
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t at = d + 16 * half;
      const __m512 v =
          _mm512_mul_ps(load_n(q + at, lanes_at(head_dim, at)).v, _mm512_set1_ps(scale));
      const __m512i upper = rounded_to_high(v);
      const __m512i lower = rounded_to_high(_mm512_sub_ps(v, high_part(upper)));
      const auto put = [&](uint16_t* to, __m512i bits) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16 * half),
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
      };
      put(high, upper);
      put(high + kTileHalves, lower);
    }
  }
}

// Where the eights of a tile's keys lie. Those of halves (of eights, where a block is no multiple
// of 32) without a key of [begin, end) point to the nearest that has one.
struct TileEights {
  const uint16_t* k[8];  // at dimension 0
  const uint16_t* v[8];  // at the first key
};
QUIRE_INLINE bool halves_in_blocks(const KvHead& kv) { return kv.block_size % 32 == 0; }
QUIRE_INLINE TileEights eights_of(const KvHead& kv, int64_t tile, int64_t begin, int64_t end) {
  TileEights out;
  const int64_t run = halves_in_blocks(kv) ? 4 : 1;  // eights that surely share a block
  const int64_t first = upper(begin - tile, 0) / (8 * run);
  const int64_t last = (lower(end - tile, kKvTile) - 1) / (8 * run);
  for (int64_t e = 0; e < 8; ++e) {
    const int64_t pos = tile + 8 * (lower(upper(e / run, first), last) * run + e % run);
    const int64_t offset = pos % kv.block_size;
    const auto* const block = reinterpret_cast<const uint16_t*>(
        kv.base + kv.blocks[pos / kv.block_size] * kv.block_stride);
    out.k[e] = block + offset;
    out.v[e] = block + static_cast<int64_t>(kv.head_dim) * kv.block_size + offset * kv.v_head_dim;
  }
  return out;
}

// A dimension of 32 keys.
template <bool kOneBlock>
QUIRE_INLINE __m512i load_keys(const uint16_t* const* eights, int64_t at) {
  if constexpr (kOneBlock) return _mm512_loadu_si512(eights[0] + at);
  const auto load_8 = [&](int e) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(eights[e] + at));
  };
  const __m256i low = _mm256_set_m128i(load_8(1), load_8(0));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_set_m128i(load_8(3), load_8(2)), 1);
}

// Keys inside a tile.
struct KeyRange {
  int64_t begin, end;
};

// Both halves of a tile are asked for before they are packed, since the hardware's prefetchers stop
// at the end of a page, and a block is not much longer: its V while its K is packed, and the K of a
// later tile with its V. Into L2, and in two portions, for L1 has room for few misses at a time:
// the first here, the second by fetch_values() and fetch_keys() while the tile unit is busy.
QUIRE_INLINE void fetch_values(const TileEights& from, int64_t half, int64_t d) {
  const uint16_t* const v = from.v[4 * half] + 32 * d;
  for (int64_t i = 16; i < 32; ++i) __builtin_prefetch(v + 32 * i, 0, 2);
}
QUIRE_INLINE void fetch_keys(const KvHead& kv, const TileEights& from, int64_t half, int64_t d,
                             int64_t dims) {
  const uint16_t* k = from.k[4 * half] + d * kv.block_size;
  for (int64_t i = 0; i < dims; ++i, k += kv.block_size) __builtin_prefetch(k, 0, 2);
}

// 32 dimensions of K from d on: four tiles of [pair of dimensions][16 keys]. Of 32 keys the even
// ones come first, then the odd ones: key_of_lane().
template <bool kOneBlock, bool kAll>
QUIRE_INLINE void pack_key_half(const KvHead& kv, const uint16_t* const* from,
                                const uint16_t* values, int64_t d, uint16_t* to) {
  const int64_t dims = kAll ? 32 : lower(32, kv.head_dim - d), size = kv.block_size;
  int64_t at = d * size;
  for (int64_t i = 0; i < 32; i += 2, at += 2 * size, to += 32, values += 32) {
    __builtin_prefetch(values, 0, 2);
    __m512i a = _mm512_setzero_si512(), b = a;
    if (kAll || i < dims) {
      a = load_keys<kOneBlock>(from, at);
    }
    if (kAll || i + 1 < dims) {
      b = load_keys<kOneBlock>(from, at + size);
    }
    store_line(to, low_halves(a, b));
    store_line(to + kTileHalves, high_halves(a, b));
  }
}
template <bool kOneBlock>
QUIRE_INLINE void pack_keys(const KvHead& kv, const TileEights& from, int64_t d, uint16_t* to) {
  for (int64_t half = 0; half < 2; ++half, to += 2 * kTileHalves) {
    const uint16_t* const* const k = from.k + 4 * half;
    const uint16_t* const values = from.v[4 * half] + 32 * d;
    d + 32 <= kv.head_dim ? pack_key_half<kOneBlock, true>(kv, k, values, d, to)
                          : pack_key_half<kOneBlock, false>(kv, k, values, d, to);
  }
}
// The key of a lane of scores, inside its tile of 64.
QUIRE_INLINE __m512i key_of_lane(int vec) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_add_epi32(_mm512_slli_epi32(lane, 1), _mm512_set1_epi32(vec / 2 * 32 + vec % 2));
}

// V of a half of the keys, `tiles` tiles of [pair of keys][16 dimensions] from dimension d on; keys
// outside of `seen` are zero, whatever the cache holds there.
template <bool kAll>
QUIRE_INLINE void pack_value_half(const KvHead& kv, const TileEights& from, const TileEights& ahead,
                                  int64_t half, int64_t d, int64_t tiles, KeyRange seen,
                                  uint16_t* to) {
  const __m512i turn = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
  const int64_t stride = kv.v_head_dim, dims = kAll ? 16 * tiles : lower(16 * tiles, stride - d);
  const uint16_t* next = ahead.k[4 * half] + d * kv.block_size;
  for (int64_t eight = 4 * half; eight < 4 * half + 4; ++eight) {
    const uint16_t* v = from.v[eight] + d;
    for (int64_t key = 8 * eight; key < 8 * eight + 8; key += 2, to += 32) {
      const bool see_a = kAll || (key >= seen.begin && key < seen.end);
      const bool see_b = kAll || (key + 1 >= seen.begin && key + 1 < seen.end);
      uint16_t* line = to;
      for (int64_t i = 0; i < dims; i += 32, line += 2 * kTileHalves) {
        const __mmask32 inside = dims - i >= 32 ? 0xffffffff : (1u << (dims - i)) - 1u;
        const auto values = [&](bool see, const uint16_t* p) __attribute__((always_inline)) {
          if constexpr (kAll) return _mm512_loadu_si512(p);
          return _mm512_maskz_loadu_epi16(see ? inside : 0, p);
        };
        const __m512i x = _mm512_permutexvar_epi64(turn, values(see_a, v + i));
        const __m512i y = _mm512_permutexvar_epi64(turn, values(see_b, v + stride + i));
        __builtin_prefetch(next, 0, 2);
        next += kv.block_size;
        store_line(line, _mm512_unpacklo_epi16(x, y));
        if (kAll || dims - i > 16) store_line(line + kTileHalves, _mm512_unpackhi_epi16(x, y));
      }
      v += 2 * stride;
    }
  }
}
QUIRE_INLINE void pack_values(const KvHead& kv, const TileEights& from, const TileEights& ahead,
                              int64_t half, int64_t d, int64_t tiles, KeyRange seen, uint16_t* to) {
  const bool all = seen.begin <= 32 * half && seen.end >= 32 * half + 32 && tiles % 2 == 0 &&
                   d + 16 * tiles <= kv.v_head_dim;
  all ? pack_value_half<true>(kv, from, ahead, half, d, tiles, seen, to)
      : pack_value_half<false>(kv, from, ahead, half, d, tiles, seen, to);
}

// Sixteen lines of sixteen 32-bit lanes, turned.
QUIRE_INLINE void transpose_16(const __m512i (&in)[16], uint16_t* to) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + 2 + j]);
      b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + 2 + j]);
    }
  }
  // b[4 g + j]: of lines 4 g .. 4 g + 3 the columns 4 l + j, l being the lane of 128 bits.
  for (int j = 0; j < 4; ++j) {
    const __m512i p = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88);
    const __m512i q = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88);
    const __m512i r = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xdd);
    const __m512i s = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xdd);
    store_line(to + 32 * j, _mm512_shuffle_i32x4(p, q, 0x88));
    store_line(to + 32 * (8 + j), _mm512_shuffle_i32x4(p, q, 0xdd));
    store_line(to + 32 * (4 + j), _mm512_shuffle_i32x4(r, s, 0x88));
    store_line(to + 32 * (12 + j), _mm512_shuffle_i32x4(r, s, 0xdd));
  }
}
// The same of V that is the first part of K.
template <bool kOneBlock>
static void pack_values_from_keys(const KvHead& kv, const TileEights& from, int64_t half, int64_t d,
                                  int64_t tiles, KeyRange seen, uint16_t* to) {
  __mmask32 mask = 0;
  for (int64_t key = 0; key < 32; ++key)
    mask |= static_cast<__mmask32>(32 * half + key >= seen.begin && 32 * half + key < seen.end)
            << key;
  for (; tiles > 0; --tiles, d += 16, to += kTileHalves) {
    __m512i lines[16];
    for (int64_t i = 0; i < 16; ++i) {
      lines[i] = _mm512_setzero_si512();
      if (d + i >= kv.v_head_dim) continue;
      const __m512i k = load_keys<kOneBlock>(from.k + 4 * half, (d + i) * kv.block_size);
      lines[i] = _mm512_maskz_mov_epi16(mask, k);
    }
    transpose_16(lines, to);
  }
}

}  // namespace quire::QUIRE_ISA
