// Attention over the sixteen-lane wrapper: blocks of query vectors go over tiles of 64 positions:
// scores in registers (query vectors x keys), softmax, values in registers (query vectors x
// dimensions). Few query vectors read K and V from the cache, many a tile that was widened to f32
// for all of them. Neither that nor how query vectors are blocked changes a bit: each has its own
// accumulators, filled in one order.
#pragma once

#include "kernels/cpu/tiles/attention_softmax.h"
#include "kernels/cpu/tiles/attention_source.h"
#include "kernels/cpu/tiles/unroll.h"

namespace quire::QUIRE_ISA {

// Register tile: query vectors x sixteens. Few query vectors are one block of up to kMostRows, many
// are cut into even blocks of up to kBlock.
inline constexpr int kBlock = 6;
#if defined(__AVX512F__) || defined(QUIRE_VEC_SCALAR)
inline constexpr int kMostRows = 8;
inline constexpr int kRegisterTile = 24;  // accumulators
#else
inline constexpr int kMostRows = 6;
inline constexpr int kRegisterTile =
    6;  // a sixteen takes two registers of 16 (AVX2), or four of 32
#endif
inline constexpr int sixteens_beside(int rows) {
  const int most = kRegisterTile / rows;
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

// scores[r][key] = q[r] . k[key] for V sixteens of keys from s on.
template <int R, int V, class Source>
QUIRE_INLINE void score_sixteens(const AttentionTile& t, const Source& source, const float* q,
                                 int s) {
  F32 acc[R][V];
  QUIRE_UNROLL for (int r = 0; r < R; ++r) QUIRE_UNROLL for (int v = 0; v < V; ++v) acc[r][v] =
      zero();
  for (int64_t d = 0; d < t.head_dim; ++d) {
    source.fetch_values(d);
    F32 keys[V];
    QUIRE_UNROLL for (int v = 0; v < V; ++v) keys[v] = source.keys(s + v, d);
    QUIRE_UNROLL for (int r = 0; r < R; ++r) {
      const F32 x = set1(q[r * t.q_stride + d]);
      QUIRE_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = fma(x, keys[v], acc[r][v]);
    }
  }
  QUIRE_UNROLL for (int r = 0; r < R; ++r) QUIRE_UNROLL for (int v = 0; v < V; ++v)
      store(t.scores + r * kKvTile + 16 * (s + v), acc[r][v]);
}
// For the keys [begin, end) of the tile; whole sixteens. Zero elsewhere.
template <int R, class Source>
static void block_scores(const AttentionTile& t, const Source& source, const float* q,
                         int64_t begin, int64_t end) {
  constexpr int kBeside = sixteens_beside(R);
  const int first = static_cast<int>(begin / 16), last = static_cast<int>((end + 15) / 16);
  int s = first;
  if constexpr (kBeside >= 4) {
    for (; s + 4 <= last; s += 4) score_sixteens<R, 4>(t, source, q, s);
  }
  if constexpr (kBeside >= 2) {
    for (; s + 2 <= last; s += 2) score_sixteens<R, 2>(t, source, q, s);
  }
  for (; s < last; ++s) score_sixteens<R, 1>(t, source, q, s);
  for (s = 0; s < 4; ++s) {
    if (s >= first && s < last) continue;
    for (int r = 0; r < R; ++r) store(t.scores + r * kKvTile + 16 * s, zero());
  }
}

// acc[r] = acc[r] * factor[r] + sum of p[r][key] * v[key] over keys [begin, end), for V sixteens
// from dimension d on; the last has `lanes` dimensions.
template <int R, int V, class Source>
QUIRE_INLINE void value_sixteens(const AttentionTile& t, const Source& source, int64_t d, int lanes,
                                 int64_t begin, int64_t end, const float* factor, float* out) {
  F32 acc[R][V];
  QUIRE_UNROLL for (int r = 0; r < R; ++r) QUIRE_UNROLL for (int v = 0; v < V; ++v) acc[r][v] =
      mul(load(out + r * t.v_padded + d + 16 * v), set1(factor[r]));
  for (int64_t key = begin; key < end;) {
    const int s = static_cast<int>(key / 16);
    const int64_t stop = lower(16 * (s + 1), end);
    for (; key < stop; ++key) {
      source.fetch_keys(d + key * 16 * V / kKvTile);
      F32 values[V];
      QUIRE_UNROLL for (int v = 0; v < V; ++v) values[v] =
          source.values(s, key - 16 * s, d + 16 * v, lanes);
      QUIRE_UNROLL for (int r = 0; r < R; ++r) {
        const F32 p = set1(t.scores[r * kKvTile + key]);
        QUIRE_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = fma(p, values[v], acc[r][v]);
      }
    }
  }
  QUIRE_UNROLL for (int r = 0; r < R; ++r) QUIRE_UNROLL for (int v = 0; v < V; ++v)
      store(out + r * t.v_padded + d + 16 * v, acc[r][v]);
}
template <int R, class Source>
static void block_values(const AttentionTile& t, const Source& source, int64_t begin, int64_t end,
                         const float* factor, float* out) {
  constexpr int kBeside = sixteens_beside(R);
  int64_t d = 0;
  for (; d + 16 * kBeside <= t.v_head_dim; d += 16 * kBeside)
    value_sixteens<R, kBeside>(t, source, d, 16, begin, end, factor, out);
  for (; d < t.v_head_dim; d += 16)
    value_sixteens<R, 1>(t, source, d, lanes_at(t.v_head_dim, d), begin, end, factor, out);
}

// Query vectors [i, i + R) against the tile.
template <int R, class Source>
static void attend_block(const AttentionItem& item, const AttentionTile& t, const Source& source,
                         int64_t tile, int64_t i, const SoftmaxState& state) {
  const int64_t span_begin = item.span * kKvSpan;
  int64_t begin[R], end[R];  // keys of each query vector inside the tile
  int64_t first = kKvTile, last = 0;
  for (int r = 0; r < R; ++r) {
    const int64_t pos = item.first_pos + (i + r) / item.heads;
    begin[r] = upper(first_key(item, pos, span_begin) - tile, 0);
    end[r] = lower(pos + 1 - tile, kKvTile);
    if (begin[r] < end[r]) {
      first = lower(first, begin[r]);
      last = upper(last, end[r]);
    }
  }
  if (first >= last) return;  // nobody sees a key here
  block_scores<R>(t, source, t.q + i * t.q_stride, first, last);
  if (item.soft_cap > 0.0f || item.alibi != nullptr) {
    for (int r = 0; r < R; ++r) {
      adjust_scores(item, (i + r) % item.heads, item.first_pos + (i + r) / item.heads, tile,
                    t.scores + r * kKvTile);
    }
  }
  float factor[16] = {};
  for (int r = 0; r < R; ++r) {
    const bool all = begin[r] == 0 && end[r] == kKvTile;
    const float max = largest(t.scores + r * kKvTile, state.max[i + r], all,
                              static_cast<float>(begin[r]), static_cast<float>(end[r]));
    factor[r] = state.max[i + r] - max;
    state.max[i + r] = max;
  }
  store(factor, exp(load(factor)));
  for (int r = 0; r < R; ++r) {
    const bool all = begin[r] == 0 && end[r] == kKvTile;
    const float total = exponentials(t.scores + r * kKvTile, state.max[i + r], all,
                                     static_cast<float>(begin[r]), static_cast<float>(end[r]));
    state.sum[i + r] = __builtin_fmaf(state.sum[i + r], factor[r], total);
  }
  block_values<R>(t, source, first, last, factor, state.acc + i * t.v_padded);
}

// All query vectors against the tile, from its widened copy.
static void attend_widened(const AttentionItem& item, const AttentionTile& t, int64_t tile,
                           const SoftmaxState& state) {
  const WidenedSource source{t};
  const int64_t vectors = static_cast<int64_t>(item.rows) * item.heads;
  for (int64_t i = 0; i < vectors;) {
    const int64_t blocks = (vectors - i + kBlock - 1) / kBlock;
    const int64_t rows = (vectors - i + blocks - 1) / blocks;
    with_rows<1, kBlock>(
        rows, [&]<int kRows>() { attend_block<kRows>(item, t, source, tile, i, state); });
    i += rows;
  }
}

// At most kMostRows query vectors against keys of the tile, from the cache.
template <class Source>
static void attend_cached(const AttentionItem& item, const AttentionTile& t, const TileKeys& keys,
                          const SoftmaxState& state) {
  const Source source(item.kv, keys);
  with_rows<1, kMostRows>(static_cast<int64_t>(item.rows) * item.heads, [&]<int kRows>() {
    attend_block<kRows>(item, t, source, keys.tile, 0, state);
  });
}

template <class Kv>
static void attend_tile(const AttentionItem& item, const AttentionTile& t, const TileKeys& keys,
                        bool cached, const SoftmaxState& state) {
  if (cached) return attend_cached<CachedSource<Kv>>(item, t, keys, state);
  widen_tile<Kv>(item.kv, keys.tile, keys.begin, keys.end, t);
  attend_widened(item, t, keys.tile, state);
}
static void attend_tile_i8(const AttentionItem& item, const AttentionTile& t, const TileKeys& keys,
                           bool cached, const SoftmaxState& state) {
  if (cached) return attend_cached<CachedSourceI8>(item, t, keys, state);
  widen_tile_i8(item.kv, keys.tile, keys.begin, keys.end, t);
  attend_widened(item, t, keys.tile, state);
}

static void attention_span(const AttentionItem& item, const SoftmaxState& state) {
  AttentionTile t;
  t.head_dim = item.kv.head_dim;
  t.v_head_dim = item.kv.v_head_dim;
  t.v_padded = pad16(t.v_head_dim);
  t.q_stride = pad16(t.head_dim);
  t.k = item.scratch;
  t.v = t.k + kKvTile * t.head_dim;
  t.q = t.v + kKvTile * t.v_padded;
  t.scores = t.q + kMaxQueryVectors * t.q_stride;
  const int64_t vectors = static_cast<int64_t>(item.rows) * item.heads;
  for (int64_t i = 0; i < vectors; ++i) {
    const float* const q = item.q + i / item.heads * item.q_stride + i % item.heads * t.head_dim;
    for (int64_t d = 0; d < t.head_dim; d += 16) {
      store(t.q + i * t.q_stride + d,
            mul(load_n(q + d, lanes_at(t.head_dim, d)), set1(item.scale)));
    }
    state.max[i] = kNoScore;
    state.sum[i] = 0.0f;
    for (int64_t d = 0; d < t.v_padded; d += 16) store(state.acc + i * t.v_padded + d, zero());
  }
  const bool cached = vectors <= kMostRows && item.kv.block_size % 16 == 0 && !item.kv.v_in_k;
  const int64_t span_begin = item.span * kKvSpan;
  const int64_t begin = first_key(item, item.first_pos, span_begin);
  const int64_t end = lower(span_begin + kKvSpan, item.first_pos + item.rows);
  for (int64_t tile = begin / kKvTile * kKvTile; tile < end; tile += kKvTile) {
    const TileKeys keys{tile, upper(begin, tile), lower(end, tile + kKvTile), begin,
                        end,  item.next_base};
    if (item.store != nullptr && tile + kKvTile >= end) store_kv(*item.store);
    if (item.kv.dtype == DType::kI8)
      attend_tile_i8(item, t, keys, cached, state);
    else if (item.kv.dtype == DType::kF32)
      attend_tile<KvF32>(item, t, keys, cached, state);
    else if (item.kv.dtype == DType::kBF16)
      attend_tile<KvBF16>(item, t, keys, cached, state);
    else
      attend_tile<KvF16>(item, t, keys, cached, state);
  }
}

static void attention_merge(const SoftmaxState& next, int64_t vectors, int64_t v_head_dim,
                            const SoftmaxState& state) {
  const int64_t padded = pad16(v_head_dim);
  for (int64_t i = 0; i < vectors; ++i) {
    const float top = state.max[i] > next.max[i] ? state.max[i] : next.max[i];
    float factors[16] = {state.max[i] - top, next.max[i] - top};
    store(factors, exp(load(factors)));
    state.max[i] = top;
    state.sum[i] = __builtin_fmaf(next.sum[i], factors[1], state.sum[i] * factors[0]);
    const F32 old_factor = set1(factors[0]), next_factor = set1(factors[1]);
    for (int64_t d = i * padded; d < (i + 1) * padded; d += 16) {
      store(state.acc + d,
            fma(load(next.acc + d), next_factor, mul(load(state.acc + d), old_factor)));
    }
  }
}

static void attention_finish(const SoftmaxState& state, int64_t vectors, int64_t heads,
                             int64_t v_head_dim, int64_t out_stride, float* out) {
  const int64_t padded = pad16(v_head_dim);
  for (int64_t i = 0; i < vectors; ++i) {
    float* const row = out + i / heads * out_stride + i % heads * v_head_dim;
    const F32 total = set1(state.sum[i]);
    for (int64_t d = 0; d < v_head_dim; d += 16) {
      store_n(row + d, add(div(load(state.acc + i * padded + d), total), zero()),
              lanes_at(v_head_dim, d));
    }
  }
}

QUIRE_INLINE void fill_vector_kernels(VectorKernels* kernels) {
  kernels->rms_norm = rms_norm;
  kernels->layer_norm = layer_norm;
  kernels->silu_mul = silu_mul;
  kernels->activate = activate;
  kernels->map = map;
  kernels->sigmoid_mul = sigmoid_mul;
  kernels->add_scaled = add_scaled;
  kernels->rope = rope;
  kernels->store_kv = store_kv;
  kernels->attention_span = attention_span;
  kernels->attention_merge = attention_merge;
  kernels->attention_finish = attention_finish;
}

}  // namespace quire::QUIRE_ISA
