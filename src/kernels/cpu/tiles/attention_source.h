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
};

// Addresses of the sixteens of a tile in the cache. Only those that hold a visible key are set.
template <class Type>
struct TileAddresses {
  const Type* k[4];  // at dimension 0
  const Type* v[4];  // at the first key
};
template <class Type>
QUIRE_INLINE TileAddresses<Type> addresses_of(const KvHead& kv, int64_t tile, int64_t begin,
                                              int64_t end) {
  TileAddresses<Type> out = {};
  for (int64_t s = (begin - tile) / 16; s < 4 && tile + 16 * s < end; ++s) {
    const int64_t pos = tile + 16 * s, offset = pos % kv.block_size;
    const Type* const block =
        reinterpret_cast<const Type*>(kv.base + kv.blocks[pos / kv.block_size] * kv.block_stride);
    out.k[s] = block + offset;
    out.v[s] = block + static_cast<int64_t>(kv.head_dim) * kv.block_size + offset * kv.v_head_dim;
  }
  return out;
}

template <class Kv>
struct CachedSource {
  using Type = typename Kv::Type;
  TileAddresses<Type> at;
  int64_t block_size, v_head_dim;
  CachedSource(const KvHead& kv, int64_t tile, int64_t begin, int64_t end)
      : at(addresses_of<Type>(kv, tile, begin, end)),
        block_size(kv.block_size),
        v_head_dim(kv.v_head_dim) {}
  QUIRE_INLINE F32 keys(int s, int64_t d) const { return Kv::get(at.k[s] + d * block_size); }
  QUIRE_INLINE F32 values(int s, int64_t key, int64_t d, int lanes) const {
    const Type* const v = at.v[s] + key * v_head_dim + d;
    return lanes == 16 ? Kv::get(v) : Kv::get_n(v, lanes);
  }
};

// int8 codes, each token's with a scale for K and one for V. Sixteen codes are read where fewer are
// wanted: the scales lie behind them.
struct CachedSourceI8 {
  TileAddresses<int8_t> at;
  int64_t block_size, v_head_dim;
  const float* scale[4];  // of the sixteen's K; V's lie block_size behind them
  CachedSourceI8(const KvHead& kv, int64_t tile, int64_t begin, int64_t end)
      : at(addresses_of<int8_t>(kv, tile, begin, end)),
        block_size(kv.block_size),
        v_head_dim(kv.v_head_dim) {
    for (int64_t s = (begin - tile) / 16; s < 4 && tile + 16 * s < end; ++s) {
      const int64_t offset = (tile + 16 * s) % block_size;
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
