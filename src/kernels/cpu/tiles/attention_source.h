// Where the tiles of attention take K and V from: widened to f32 in scratch, which pays off for
// many query vectors, or from the cache itself, widened in registers. Sixteen keys of a tile lie in
// one block, so that each sixteen has its own address.
#pragma once

#include "kernels/cpu/tiles/attention_widen.h"

namespace quire::QUIRE_ISA {

struct WidenedSource {
  AttentionTile tile;
  // K of dimension d for the sixteen keys s.
  QUIRE_INLINE F32 keys(int s, int64_t d) const { return load(tile.k + d * kKvTile + 16 * s); }
  // V of a key in sixteen s, `lanes` dimensions from d on.
  QUIRE_INLINE F32 values(int s, int64_t key, int64_t d, int) const {
    return load(tile.v + (16 * s + key) * tile.v_padded + d);
  }
  QUIRE_INLINE void fetch_values(int64_t) const {}
  QUIRE_INLINE void fetch_keys(int64_t) const {}
};

// Addresses of the sixteens of a tile in the cache: those that hold a visible key; the others are
// those of sixteens that do.
template <class Type>
struct TileAddresses {
  const Type* k[4];  // at dimension 0
  const Type* v[4];  // at the first key
};
template <class Type>
QUIRE_INLINE TileAddresses<Type> addresses_of(const KvHead& kv, int64_t tile, int64_t begin,
                                              int64_t end) {
  TileAddresses<Type> out;
  const int64_t first = (begin - tile) / 16, last = lower((end - tile + 15) / 16, 4) - 1;
  for (int64_t s = 0; s < 4; ++s) {
    const int64_t pos = tile + 16 * lower(upper(s, first), last), offset = pos % kv.block_size;
    const Type* const block =
        reinterpret_cast<const Type*>(kv.base + kv.blocks[pos / kv.block_size] * kv.block_stride);
    out.k[s] = block + offset;
    out.v[s] = block + static_cast<int64_t>(kv.head_dim) * kv.block_size + offset * kv.v_head_dim;
  }
  return out;
}

// Keys [begin, end) of a tile, out of the item's [first, last). next_base: of AttentionItem
struct TileKeys {
  int64_t tile, begin, end, first, last;
  const std::byte* next_base;
};

// What is read soon is asked for ahead, since the hardware's prefetchers stop at the end of a page,
// and a block is not much longer: the tile's V while its scores are computed, and the next tile's K
// while values are added up.
template <class Type>
struct CachedTile {
  TileAddresses<Type> at, next;
  int64_t block_size, v_head_dim;
  CachedTile(const KvHead& kv, const TileKeys& keys)
      : at(addresses_of<Type>(kv, keys.tile, keys.begin, keys.end)),
        next(at),
        block_size(kv.block_size),
        v_head_dim(kv.v_head_dim) {
    const int64_t after = keys.tile + kKvTile;
    if (after < keys.last) {
      next = addresses_of<Type>(kv, after, after, keys.last);
    } else if (keys.next_base != nullptr) {
      KvHead other = kv;
      other.base = keys.next_base;
      next = addresses_of<Type>(other, keys.first / kKvTile * kKvTile, keys.first, keys.last);
    }
  }
  // With the scores of dimension d: as far into V, sixteen by sixteen, half of them at a time.
  QUIRE_INLINE void fetch_values(int64_t d) const {
    const int s = static_cast<int>(d % 2) * 2;
    __builtin_prefetch(at.v[s] + 16 * d);
    __builtin_prefetch(at.v[s + 1] + 16 * d);
  }
  // K of dimension d; two sixteens share a line.
  QUIRE_INLINE void fetch_keys(int64_t d) const {
    __builtin_prefetch(next.k[0] + d * block_size);
    __builtin_prefetch(next.k[2] + d * block_size);
  }
};

template <class Kv>
struct CachedSource : CachedTile<typename Kv::Type> {
  using Type = typename Kv::Type;
  using Tile = CachedTile<Type>;
  using Tile::at, Tile::block_size, Tile::v_head_dim;
  using Tile::Tile;
  QUIRE_INLINE F32 keys(int s, int64_t d) const { return Kv::get(at.k[s] + d * block_size); }
  QUIRE_INLINE F32 values(int s, int64_t key, int64_t d, int lanes) const {
    const Type* const v = at.v[s] + key * v_head_dim + d;
    return lanes == 16 ? Kv::get(v) : Kv::get_n(v, lanes);
  }
};

// int8 codes, each token's with a scale for K and one for V. Sixteen codes are read where fewer are
// wanted: the scales lie behind them.
struct CachedSourceI8 : CachedTile<int8_t> {
  const float* scale[4];  // of the sixteen's K; V's lie block_size behind them
  CachedSourceI8(const KvHead& kv, const TileKeys& keys) : CachedTile(kv, keys) {
    const int64_t last = (lower(keys.end - keys.tile, kKvTile) + 15) / 16;
    for (int64_t s = (keys.begin - keys.tile) / 16; s < last; ++s) {
      const int64_t offset = (keys.tile + 16 * s) % block_size;
      scale[s] = reinterpret_cast<const float*>(at.k[s] - offset + kv_scales_offset(kv)) + offset;
    }
  }
  QUIRE_INLINE F32 keys(int s, int64_t d) const {
    return mul(from_i8(at.k[s] + d * block_size), load(scale[s]));
  }
  QUIRE_INLINE F32 values(int s, int64_t key, int64_t d, int) const {
    return mul(from_i8(at.v[s] + key * v_head_dim + d), set1(scale[s][block_size + key]));
  }
};

}  // namespace quire::QUIRE_ISA
