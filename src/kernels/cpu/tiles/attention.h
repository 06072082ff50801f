// Attention over the sixteen-lane wrapper. K and V of a tile of 64 positions are widened to f32
// once; then blocks of query vectors go over it: scores in registers (query vectors x keys),
// softmax, values in registers (query vectors x dimensions). How query vectors are blocked never
// changes a bit: each has its own accumulators, filled in one order.
#pragma once

#include "kernels/cpu/tiles/elementwise.h"
#include "kernels/cpu/tiles/unroll.h"
#include "kernels/cpu/tiles/vector.h"

namespace quire::QUIRE_ISA {

// Register tile: kBlock query vectors x kVecs sixteens.
inline constexpr int kBlock = 6;
#if defined(__AVX512F__) || defined(QUIRE_VEC_SCALAR)
inline constexpr int kVecs = 4;
#else
inline constexpr int kVecs = 1;  // a sixteen takes two registers of 16 (AVX2), or four of 32 (NEON)
#endif

QUIRE_INLINE int64_t pad16(int64_t n) { return (n + 15) / 16 * 16; }
QUIRE_INLINE int64_t lower(int64_t a, int64_t b) { return a < b ? a : b; }
QUIRE_INLINE int64_t upper(int64_t a, int64_t b) { return a > b ? a : b; }

struct AttentionTile {
  float* k;       // [head_dim][64]
  float* v;       // [64][padded v_head_dim]
  float* q;       // scaled: [vectors][q_stride]
  float* scores;  // [kBlock][64]
  int64_t head_dim, v_padded, q_stride;
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

// scores[r][key] = q[r] . k[key], for 64 keys.
template <int R>
static void block_scores(const AttentionTile& t, const float* q) {
  for (int first = 0; first < 4; first += kVecs) {
    F32 acc[R][kVecs];
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kVecs; ++v) acc[r][v] = zero();
    const float* k = t.k + 16 * first;
    for (int64_t d = 0; d < t.head_dim; ++d, k += kKvTile) {
      F32 keys[kVecs];
      for (int v = 0; v < kVecs; ++v) keys[v] = load(k + 16 * v);
      for (int r = 0; r < R; ++r) {
        const F32 x = set1(q[r * t.q_stride + d]);
        for (int v = 0; v < kVecs; ++v) acc[r][v] = fma(x, keys[v], acc[r][v]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kVecs; ++v) store(t.scores + r * kKvTile + 16 * (first + v), acc[r][v]);
  }
}

// acc[r] = acc[r] * factor[r] + sum of p[r][key] * v[key] over keys [begin, end), for V sixteens
// from dimension d on.
template <int R, int V>
static void block_values(const AttentionTile& t, int64_t d, int64_t begin, int64_t end,
                         const float* factor, float* out) {
  F32 acc[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v)
      acc[r][v] = mul(load(out + r * t.v_padded + d + 16 * v), set1(factor[r]));
  for (int64_t key = begin; key < end; ++key) {
    const float* const line = t.v + key * t.v_padded + d;
    F32 values[V];
    for (int v = 0; v < V; ++v) values[v] = load(line + 16 * v);
    for (int r = 0; r < R; ++r) {
      const F32 p = set1(t.scores[r * kKvTile + key]);
      for (int v = 0; v < V; ++v) acc[r][v] = fma(p, values[v], acc[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) store(out + r * t.v_padded + d + 16 * v, acc[r][v]);
}

alignas(64) static const float kLaneNumbers[kKvTile] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

// v where the lane's key lies in [begin, end), else `other`.
QUIRE_INLINE F32 keep_visible(F32 v, int vec, float begin, float end, F32 other) {
  const F32 key = load(kLaneNumbers + 16 * vec);
  return select_lt(key, set1(begin), other, select_lt(key, set1(end), v, other));
}

// Scores of one query vector become exponentials; keys outside [begin, end) of the tile exact
// zeros.
QUIRE_INLINE float exponentials(float* scores, float max, bool all, float begin, float end) {
  F32 p[4];
  for (int v = 0; v < 4; ++v) {
    p[v] = exp(sub(load(scores + 16 * v), set1(max)));
    if (!all) p[v] = keep_visible(p[v], v, begin, end, zero());
    store(scores + 16 * v, p[v]);
  }
  return sum(add(add(p[0], p[1]), add(p[2], p[3])));
}
QUIRE_INLINE float largest(const float* scores, float max, bool all, float begin, float end) {
  F32 s[4];
  for (int v = 0; v < 4; ++v) {
    s[v] = load(scores + 16 * v);
    if (!all) s[v] = keep_visible(s[v], v, begin, end, set1(kNoScore));
  }
  const float top = hmax(
      quire::QUIRE_ISA::max(quire::QUIRE_ISA::max(s[0], s[1]), quire::QUIRE_ISA::max(s[2], s[3])));
  return top > max ? top : max;
}

// Soft cap and slopes on one query vector's scores. pos: its row's position.
static void adjust_scores(const AttentionItem& item, int64_t head, int64_t pos, int64_t tile,
                          float* scores) {
  for (int v = 0; v < 4; ++v) {
    F32 s = load(scores + 16 * v);
    if (item.soft_cap > 0.0f) s = soft_cap(set1(item.soft_cap), s);
    if (item.alibi != nullptr) {
      const F32 distance = add(load(kLaneNumbers + 16 * v), set1(static_cast<float>(tile - pos)));
      s = fma(set1(item.alibi[head]), distance, s);
    }
    store(scores + 16 * v, s);
  }
}

// The first key that a row at `pos` reaches, from `begin` on.
QUIRE_INLINE int64_t first_key(const AttentionItem& item, int64_t pos, int64_t begin) {
  if (item.window > 0) begin = upper(begin, pos - item.window + 1);
  if (item.chunk > 0) begin = upper(begin, pos - pos % item.chunk);
  return begin;
}

// Query vectors [i, i + R) against the tile.
template <int R>
static void attend_block(const AttentionItem& item, const AttentionTile& t, int64_t tile, int64_t i,
                         const SoftmaxState& state) {
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
  block_scores<R>(t, t.q + i * t.q_stride);
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
  float* const out = state.acc + i * t.v_padded;
  int64_t d = 0;
  for (; d + 16 * kVecs <= t.v_padded; d += 16 * kVecs)
    block_values<R, kVecs>(t, d, first, last, factor, out);
  for (; d < t.v_padded; d += 16) block_values<R, 1>(t, d, first, last, factor, out);
}

static void attend_vectors(const AttentionItem& item, const AttentionTile& t, int64_t tile,
                           const SoftmaxState& state) {
  const int64_t vectors = static_cast<int64_t>(item.rows) * item.heads;
  int64_t i = 0;
  for (; i + kBlock <= vectors; i += kBlock) attend_block<kBlock>(item, t, tile, i, state);
  if (i == vectors) return;
  with_rows<1, kBlock - 1>(vectors - i,
                           [&]<int kRows>() { attend_block<kRows>(item, t, tile, i, state); });
}

static void attention_span(const AttentionItem& item, const SoftmaxState& state) {
  AttentionTile t;
  t.head_dim = item.kv.head_dim;
  t.v_padded = pad16(item.kv.v_head_dim);
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
  const int64_t span_begin = item.span * kKvSpan;
  const int64_t begin = first_key(item, item.first_pos, span_begin);
  const int64_t end = lower(span_begin + kKvSpan, item.first_pos + item.rows);
  for (int64_t tile = begin / kKvTile * kKvTile; tile < end; tile += kKvTile) {
    const int64_t from = upper(begin, tile), to = lower(end, tile + kKvTile);
    if (item.kv.dtype == DType::kI8)
      widen_tile_i8(item.kv, tile, from, to, t);
    else if (item.kv.dtype == DType::kF32)
      widen_tile<KvF32>(item.kv, tile, from, to, t);
    else if (item.kv.dtype == DType::kBF16)
      widen_tile<KvBF16>(item.kv, tile, from, to, t);
    else
      widen_tile<KvF16>(item.kv, tile, from, to, t);
    attend_vectors(item, t, tile, state);
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
