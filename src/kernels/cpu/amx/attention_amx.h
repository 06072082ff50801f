// Attention over K and V in bf16 on the AMX tile unit, for every number of query vectors.
//
// Sixteen query vectors meet a tile of 64 keys in one step: scores (tdpbf16ps), their exponentials
// (vector registers), values (tdpbf16ps). K and V are bf16 as they lie in the cache; queries and
// exponentials are the sum of two bf16 each, so that products are off by 2^-16 and less, not by
// bf16's 2^-9. A row of a tile is a chain of its own, so what a query vector gets does not depend
// on who shares its step, nor on how many do.
//
// The three parts of a step are done beside those of its neighbours: while the tile unit works on
// the scores of the next step and the values of the last one, the exponentials of this one keep the
// vector unit busy.
#pragma once

#include "kernels/cpu/amx/attention_exp_amx.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/tiles/attention.h"

namespace quire::QUIRE_ISA {

// The exponentials of a step, a few rows at a time, spread over `slots` calls.
struct SpreadExponentials {
  const AmxAttention& a;
  const AmxStep& step;
  int64_t slots, slot = 0, done = 0, rows;
  SpreadExponentials(const AmxAttention& attention, const AmxStep& of, int64_t calls)
      : a(attention), step(of), slots(calls), rows(lower(16, a.vectors - 16 * of.block)) {
    step.data->rescale = 0;
    if (a.item.soft_cap > 0.0f || a.item.alibi != nullptr) {
      for (int64_t r = 0; r < rows; ++r)
        adjust_row(a.item, 16 * step.block + r, step.tile, step.data->rows[r].scores);
    }
  }
  QUIRE_INLINE void up_to(int64_t last) {
    if (last <= done) return;
    step.whole ? exponential_rows<false>(a, step, done, last)
               : exponential_rows<true>(a, step, done, last);
    done = last;
  }
  QUIRE_INLINE void operator()() { up_to(rows * ++slot / slots); }
};
struct NoWork {
  QUIRE_INLINE void operator()() const {}
};

// K of a step of 32 dimensions. For few query vectors it stays in a small ring, which is in L1.
static void pack_step_keys(const AmxAttention& a, const AmxStep& step, int64_t s, uint16_t* k) {
  const TilePlaces& places = *step.places;
  halves_in_blocks(a.item.kv) ? pack_keys<true>(a.item.kv, places.at, 32 * s, k)
                              : pack_keys<false>(a.item.kv, places.at, 32 * s, k);
  tile_fence();
}
static void pack_step_values(const AmxAttention& a, const AmxStep& step, int64_t half, int64_t tile,
                             int64_t tiles, uint16_t* v) {
  const TilePlaces& places = *step.places;
  const KvHead& kv = a.item.kv;
  if (!kv.v_in_k) {
    pack_values(kv, places.at, places.ahead, half, 16 * tile, tiles, places.seen, v);
  } else if (halves_in_blocks(kv)) {
    pack_values_from_keys<true>(kv, places.at, half, 16 * tile, tiles, places.seen, v);
  } else {
    pack_values_from_keys<false>(kv, places.at, half, 16 * tile, tiles, places.seen, v);
  }
  tile_fence();
}

// Scores of a step: tiles 0-3, sixteen keys each; 4, 5: queries; 6, 7: keys.
template <class Work>
QUIRE_INLINE void step_scores(const AmxAttention& a, const AmxStep& step, Work& work) {
  tile_fence();
  const uint16_t* q = a.q + step.block * a.k_steps * 2 * kTileHalves;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t s = 0; s < a.k_steps; ++s, q += 2 * kTileHalves) {
    uint16_t* const k = a.k + (a.vectors <= 16 ? s % 2 : s) * 4 * kTileHalves;
    if (step.first) pack_step_keys(a, step, s, k);
    _tile_loadd(4, q, 64);
    _tile_loadd(6, k, 64);
    _tile_loadd(7, k + kTileHalves, 64);
    _tile_loadd(5, q + kTileHalves, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(0, 5, 6);
    _tile_dpbf16ps(1, 5, 7);
    if (step.first) fetch_values(step.places->at, 0, 32 * s);
    work();
    _tile_loadd(6, k + 2 * kTileHalves, 64);
    _tile_loadd(7, k + 3 * kTileHalves, 64);
    _tile_dpbf16ps(2, 4, 6);
    _tile_dpbf16ps(3, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    if (step.first) fetch_values(step.places->at, 1, 32 * s);
    work();
  }
  float* const scores = step.data->rows[0].scores;
  constexpr int64_t kStride = kKvTile * sizeof(float);
  _tile_stored(0, scores, kStride);
  _tile_stored(1, scores + 16, kStride);
  _tile_stored(2, scores + 32, kStride);
  _tile_stored(3, scores + 48, kStride);
  tile_fence();
}

// Adds the values of kTiles sixteens of dimensions: tiles 0-3; 4, 5: exponentials; 6, 7: values.
template <int kTiles, class Work>
QUIRE_INLINE void add_values(const AmxAttention& a, const AmxStep& step, int64_t tile, Work& work) {
  const int64_t stride = a.v_tiles * 16 * static_cast<int64_t>(sizeof(float));
  float* const acc = a.acc + step.block * 16 * a.v_tiles * 16 + 16 * tile;
  _tile_loadd(0, acc, stride);
  if constexpr (kTiles > 1) _tile_loadd(1, acc + 16, stride);
  if constexpr (kTiles > 2) _tile_loadd(2, acc + 32, stride);
  if constexpr (kTiles > 3) _tile_loadd(3, acc + 48, stride);
  for (int half = 0; half < 2; ++half) {
    uint16_t* const v = a.v + ((a.vectors <= 16 ? 0 : 2 * tile) + half * 4) * kTileHalves;
    if (step.first) pack_step_values(a, step, half, tile, kTiles, v);
    _tile_loadd(4, step.data->rows[0].p[half][0], sizeof(AmxStepData::Row));
    _tile_loadd(5, step.data->rows[0].p[half][1], sizeof(AmxStepData::Row));
    _tile_loadd(6, v, 64);
    if constexpr (kTiles > 1) _tile_loadd(7, v + kTileHalves, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTiles > 1) _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(0, 5, 6);
    if constexpr (kTiles > 1) _tile_dpbf16ps(1, 5, 7);
    if (step.first)
      fetch_keys(a.item.kv, step.places->ahead, half, 16 * tile + 8 * kTiles, 4 * kTiles);
    work();
    if constexpr (kTiles > 2) {
      _tile_loadd(6, v + 2 * kTileHalves, 64);
      if constexpr (kTiles > 3) _tile_loadd(7, v + 3 * kTileHalves, 64);
      _tile_dpbf16ps(2, 4, 6);
      if constexpr (kTiles > 3) _tile_dpbf16ps(3, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kTiles > 3) _tile_dpbf16ps(3, 5, 7);
    }
    if (step.first)
      fetch_keys(a.item.kv, step.places->ahead, half, 16 * tile + 12 * kTiles, 4 * kTiles);
    work();
  }
  _tile_stored(0, acc, stride);
  if constexpr (kTiles > 1) _tile_stored(1, acc + 16, stride);
  if constexpr (kTiles > 2) _tile_stored(2, acc + 32, stride);
  if constexpr (kTiles > 3) _tile_stored(3, acc + 48, stride);
}
static void rescale_rows(const AmxAttention& a, const AmxStep& step) {
  const int64_t width = 16 * a.v_tiles;
  for (uint32_t left = step.data->rescale; left != 0; left &= left - 1) {
    const int row = __builtin_ctz(left);
    const F32 factor = set1(step.data->factor[row]);
    float* const acc = a.acc + (16 * step.block + row) * width;
    for (int64_t d = 0; d < width; d += 16) store(acc + d, mul(load(acc + d), factor));
  }
}
template <class Work>
QUIRE_INLINE void step_values(const AmxAttention& a, const AmxStep& step, Work& work) {
  tile_fence();
  if (step.data->rescale != 0) rescale_rows(a, step);
  tile_fence();
  int64_t tile = 0;
  for (; tile + 4 <= a.v_tiles; tile += 4) add_values<4>(a, step, tile, work);
  if (a.v_tiles - tile == 3) add_values<3>(a, step, tile, work);
  if (a.v_tiles - tile == 2) add_values<2>(a, step, tile, work);
  if (a.v_tiles - tile == 1) add_values<1>(a, step, tile, work);
  tile_fence();
}

// Steps in order: tile by tile, in each the blocks that see any of its keys.
struct AmxSteps {
  const AmxAttention& a;
  AmxStepData* data;  // kStepsAtOnce
  int64_t tile, block = -1, count = 0;
  bool entered = false;
  TilePlaces places[kStepsAtOnce] = {};

  void enter_tile() {
    const AttentionItem& item = a.item;
    if (item.store != nullptr && tile + kKvTile >= a.end) store_kv(*item.store);
    TilePlaces& here = places[tile / kKvTile % kStepsAtOnce];
    here.at = eights_of(item.kv, tile, a.begin, a.end);
    here.seen = {a.begin - tile, a.end - tile};
    // The tile whose K is packed soon after V of this one.
    const int64_t later = tile + (a.vectors <= 16 ? 3 : 1) * kKvTile;
    const int64_t last = item.first_pos + item.rows;  // of the sequence
    const int64_t first = first_key(item, item.first_pos, 0), over = later - (last + 63) / 64 * 64;
    if (later < last) {
      here.ahead = eights_of(item.kv, later, first, last);
    } else if (item.next_base != nullptr) {
      KvHead other = item.kv;
      other.base = item.next_base;
      const int64_t at = lower(first / kKvTile * kKvTile + over, (last - 1) / kKvTile * kKvTile);
      here.ahead = eights_of(other, at, first, last);
    } else {
      here.ahead = here.at;
    }
  }
  bool next(AmxStep* step) {
    const int64_t blocks = (a.vectors + 15) / 16;
    for (; tile < a.end; tile += kKvTile, block = -1, entered = false) {
      while (++block < blocks) {
        const KeyRange first = keys_of(a.item, 16 * block, tile);
        const KeyRange last = keys_of(a.item, lower(16 * block + 15, a.vectors - 1), tile);
        if (first.begin >= kKvTile || last.end <= 0) continue;
        if (!entered) enter_tile();
        step->tile = tile;
        step->block = block;
        step->whole = last.begin == 0 && first.end == kKvTile;
        step->first = !entered;
        step->places = &places[tile / kKvTile % kStepsAtOnce];
        step->data = data + count++ % kStepsAtOnce;
        entered = true;
        return true;
      }
    }
    return false;
  }
};

static void amx_steps(const AmxAttention& a) {
  AmxStepData data[kStepsAtOnce];
  AmxSteps steps{a, data, a.begin / kKvTile * kKvTile};
  AmxStep last, now, next;
  NoWork none;
  if (!steps.next(&now)) return;
  step_scores(a, now, none);
  const int64_t slots = 2 * a.k_steps + (a.v_tiles + 3) / 4 * 4;
  for (bool more = true, any_last = false; more; last = now, now = next, any_last = true) {
    SpreadExponentials exponentials(a, now, slots);
    more = steps.next(&next);
    if (more) step_scores(a, next, exponentials);
    if (any_last) step_values(a, last, exponentials);
    exponentials.up_to(exponentials.rows);
  }
  step_values(a, last, none);
}

// Tiles 0-3: sums [rows][16]; 4, 5: [rows][32]; 6, 7: [16 pairs][16].
QUIRE_INLINE void configure_attention_tiles(int64_t rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = 64;
    config.rows[t] = static_cast<uint8_t>(t < 6 ? rows : 16);
  }
  load_tile_config(config);
}

static void amx_attention_span(const AttentionItem& item, const SoftmaxState& state) {
  if (item.kv.dtype != DType::kBF16) return attention_span(item, state);
  AmxAttention a{.item = item};
  a.vectors = static_cast<int64_t>(item.rows) * item.heads;
  a.rows = lower(a.vectors, 16);
  a.k_steps = round_up_32(item.kv.head_dim) / 32;
  a.v_tiles = pad16(item.kv.v_head_dim) / 16;
  const int64_t width = 16 * a.v_tiles, span_begin = item.span * kKvSpan;
  a.begin = first_key(item, item.first_pos, span_begin);
  a.end = lower(span_begin + kKvSpan, item.first_pos + item.rows);
  a.k = reinterpret_cast<uint16_t*>(item.scratch);
  a.v = a.k + upper(a.k_steps, 2) * 4 * kTileHalves;
  a.q = a.v + (a.v_tiles + 3) / 4 * 8 * kTileHalves;
  a.sums = reinterpret_cast<float*>(a.q + kMaxQueryVectors / 16 * a.k_steps * 2 * kTileHalves);
  a.references = a.sums + 16 * kMaxQueryVectors;
  const bool even = a.vectors % a.rows == 0;
  a.acc = even ? state.acc : a.references + kMaxQueryVectors;
  const bool adjusted = item.soft_cap > 0.0f || item.alibi != nullptr;
  const float scale = adjusted ? item.scale : item.scale * kLog2E;
  for (int64_t i = 0; i < a.vectors; ++i) {
    const float* const q =
        item.q + i / item.heads * item.q_stride + i % item.heads * item.kv.head_dim;
    pack_query(q, scale, item.kv.head_dim,
               a.q + i / 16 * a.k_steps * 2 * kTileHalves + i % 16 * 32);
    a.references[i] = kNoScore;
    store(a.sums + 16 * i, zero());
    for (int64_t d = 0; d < width; d += 16) store(a.acc + i * width + d, zero());
  }
  configure_attention_tiles(a.rows);
  amx_steps(a);
  _tile_release();
  for (int64_t i = 0; i < a.vectors; ++i) {
    state.max[i] = a.references[i] == kNoScore ? kNoScore : a.references[i] * kLn2;
    state.sum[i] = sum(load(a.sums + 16 * i));
    if (even) continue;
    for (int64_t d = 0; d < width; d += 16)
      store(state.acc + i * width + d, load(a.acc + i * width + d));
  }
}

}  // namespace quire::QUIRE_ISA
