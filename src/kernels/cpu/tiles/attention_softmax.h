// The softmax of a register tile: masks, soft cap, slopes, running maxima and exponentials.
#pragma once

#include "kernels/cpu/tiles/attention_widen.h"

namespace quire::QUIRE_ISA {

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
    p[v] = softmax_exp(sub(load(scores + 16 * v), set1(max)));
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

}  // namespace quire::QUIRE_ISA
