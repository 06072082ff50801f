// The softmax of attention on AMX tiles: sixteen query vectors against 64 keys.
//
// Scores are logarithms to base 2 (the queries' scale sees to that). Instead of a running maximum a
// query vector has a reference, a whole number: it moves to the maximum, rounded up, when a score
// exceeds it by 8 and more. So sums are scaled seldom, and by a power of 2, which is exact.
//
// While the tile unit is in use, floating-point instructions of 512 bits share one port (measured
// on Granite Rapids), whole-number ones have two: hence fixed point, and logic where it can be.
#pragma once

#include "kernels/cpu/amx/attention_pack_amx.h"

namespace quire::QUIRE_ISA {

inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.69314718f;
// A score less the reference becomes a fixed-point number t with 16 binary places: kFixed is added,
// and lies so that t is in [128, 256) for scores from 120 below to 8 above the reference. Lower
// ones count as 120 below; higher ones move the reference.
inline constexpr float kFixed = 248.0f, kLeastFixed = 128.0f, kEndFixed = 256.0f;
inline constexpr int kFixedBits = 0x43000000;  // of the least t; the others' differ below bit 23
// 2^(j / 16); less j << 19, 120 << 23 and 1 << 31, which t << 7 brings along.
alignas(64) static const uint32_t kPowers[16] = {
    0x83800000, 0x837daac3, 0x837b95c2, 0x8379c3d3, 0x837837f0, 0x8376f532, 0x8375fed7, 0x8375583f,
    0x837504f3, 0x837508a4, 0x8375672a, 0x8376248c, 0x837744fd, 0x8378ccdf, 0x837ac0c7, 0x837d257d};
// 2^r for r in [0, 1/16), to 2^-21.
inline constexpr float kPower0 = 1.00000042f, kPower1 = 0.693024194f, kPower2 = 0.245479584f;

inline constexpr int kStepsAtOnce = 3;  // scores, exponentials, values

// What a step leaves in memory for the next parts of it.
struct alignas(64) AmxStepData {
  union Row {
    float scores[kKvTile];  // lanes as in key_of_lane()
    uint16_t p[2][2][32];   // their exponentials: [32 keys][high, low]
  } rows[16];
  float factor[16];  // of the rows in `rescale`
  uint32_t rescale = 0;
};

// Where a tile of keys lies.
struct TilePlaces {
  TileEights at;
  TileEights ahead;  // of the tile whose K is read next
  KeyRange seen;     // by anyone
};

struct AmxStep {
  int64_t tile = 0, block = 0;
  bool whole = false;  // every query vector sees all keys of the tile
  bool first = false;  // of its tile: packs K and V
  const TilePlaces* places = nullptr;
  AmxStepData* data = nullptr;
};

struct AmxAttention {
  const AttentionItem& item;
  int64_t vectors = 0, rows = 0;  // rows: of a block
  int64_t k_steps = 0, v_tiles = 0;
  int64_t begin = 0, end = 0;   // keys that anyone sees
  uint16_t* q = nullptr;        // [block][k step][high, low] tiles
  uint16_t* k = nullptr;        // [k step][sixteen of keys]
  uint16_t* v = nullptr;        // [sixteen of dimensions / 4][32 keys][up to 4]
  float* acc = nullptr;         // [vectors][v_tiles * 16]
  float* sums = nullptr;        // [vectors][16 lanes]
  float* references = nullptr;  // [vectors]
};

// Keys of query vector i inside the tile.
QUIRE_INLINE KeyRange keys_of(const AttentionItem& item, int64_t i, int64_t tile) {
  const int64_t pos = item.first_pos + i / item.heads;
  return {upper(first_key(item, pos, 0) - tile, 0), lower(pos + 1 - tile, kKvTile)};
}

// Soft cap and slopes; scores are natural logarithms until here.
static void adjust_row(const AttentionItem& item, int64_t i, int64_t tile, float* scores) {
  const int64_t behind = tile - (item.first_pos + i / item.heads);
  for (int v = 0; v < 4; ++v) {
    F32 s = load(scores + 16 * v);
    if (item.soft_cap > 0.0f) s = soft_cap(set1(item.soft_cap), s);
    if (item.alibi != nullptr) {
      const I32 key{key_of_lane(v)};
      const F32 distance = to_f32(add(key, set1_i32(static_cast<int32_t>(behind))));
      s = fma(set1(item.alibi[i % item.heads]), distance, s);
    }
    store(scores + 16 * v, mul(s, set1(kLog2E)));
  }
}

// Moves the reference of query vector i to `top`, its highest visible score.
static __attribute__((noinline)) void move_reference(const AmxAttention& a, int64_t i, int64_t row,
                                                     float top, AmxStepData* data) {
  const float now = _mm_cvtss_f32(_mm_ceil_ss(_mm_setzero_ps(), _mm_set_ss(top)));
  const float down = a.references[i] - now;
  uint32_t power = 0;
  if (down >= -126.0f) power = static_cast<uint32_t>(static_cast<int32_t>(down) + 127) << 23;
  float factor;
  __builtin_memcpy(&factor, &power, 4);
  a.references[i] = now;
  data->factor[row] = factor;
  data->rescale |= 1u << row;
  float* const sums = a.sums + 16 * i;
  store(sums, mul(load(sums), set1(factor)));
}

// Scores of a row as fixed-point numbers; those that are not visible count as the least.
struct FixedScores {
  __m512 t[4];
  QUIRE_INLINE bool fit() const {
    const __m512i base = _mm512_set1_epi32(kFixedBits);
    const auto differ = [&](__m512 x, __m512 y) __attribute__((always_inline)) {
      return _mm512_ternarylogic_epi32(_mm512_castps_si512(x), _mm512_castps_si512(y), base,
                                       0x7e);  // (x ^ base) | (y ^ base)
    };
    const __m512i all = _mm512_or_si512(differ(t[0], t[1]), differ(t[2], t[3]));
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xff800000));
    return __builtin_expect(_mm512_test_epi32_mask(all, high) == 0, 1);
  }
  QUIRE_INLINE float largest() const {
    return hmax({_mm512_max_ps(_mm512_max_ps(t[0], t[1]), _mm512_max_ps(t[2], t[3]))});
  }
};

template <bool kMasked>
QUIRE_INLINE FixedScores fixed_scores(const float* scores, const __mmask16* see, float reference) {
  const __m512 shift = _mm512_set1_ps(kFixed - reference);
  FixedScores out;
  QUIRE_UNROLL for (int v = 0; v < 4; ++v) {
    out.t[v] = _mm512_add_ps(_mm512_loadu_ps(scores + 16 * v), shift);
    if constexpr (kMasked)
      out.t[v] = _mm512_mask_mov_ps(_mm512_set1_ps(kLeastFixed), see[v], out.t[v]);
  }
  return out;
}
// Scores that do not fit: the reference moves if it must, and low ones are raised.
template <bool kMasked>
static __attribute__((noinline)) void fit_scores(const AmxAttention& a, const AmxStep& step,
                                                 int64_t row, const __mmask16* see,
                                                 FixedScores* out) {
  const int64_t i = 16 * step.block + row;
  const float* const scores = step.data->rows[row].scores;
  *out = fixed_scores<kMasked>(scores, see, a.references[i]);
  if (!(out->largest() < kEndFixed)) {
    __m512 top = _mm512_set1_ps(kNoScore);
    for (int v = 0; v < 4; ++v) {
      const __m512 s = _mm512_loadu_ps(scores + 16 * v);
      top = kMasked ? _mm512_mask_max_ps(top, see[v], top, s) : _mm512_max_ps(top, s);
    }
    move_reference(a, i, row, hmax({top}), step.data);
  }
  *out = fixed_scores<kMasked>(scores, see, a.references[i]);
  for (int v = 0; v < 4; ++v)
    out->t[v] = _mm512_max_ps(_mm512_set1_ps(kLeastFixed), out->t[v]);  // NaN stays
}

// The exponentials, cut to 16 significant bits: the sum of two bf16 exactly.
QUIRE_INLINE __m512i exponential(__m512 t) {
  const __m512i bits = _mm512_castps_si512(t);
  const __m512i sixteenths =
      _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xfffff000)));
  const __m512 r = _mm512_sub_ps(t, _mm512_castsi512_ps(sixteenths));
  const __m512 y =
      _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_set1_ps(kPower2), r, _mm512_set1_ps(kPower1)), r,
                      _mm512_set1_ps(kPower0));
  const __m512i power = _mm512_add_epi32(
      _mm512_permutexvar_epi32(_mm512_srli_epi32(bits, 12), _mm512_load_si512(kPowers)),
      _mm512_slli_epi32(sixteenths, 7));
  return _mm512_and_si512(_mm512_castps_si512(_mm512_mul_ps(y, _mm512_castsi512_ps(power))),
                          _mm512_set1_epi32(static_cast<int>(0xffffff00)));
}
QUIRE_INLINE __m512i below_high(__m512i p) {
  return _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(p), high_part(p)));
}

// Of the block's query vectors [row, last), and their sums.
template <bool kMasked>
static __attribute__((noinline)) void exponential_rows(const AmxAttention& a, const AmxStep& step,
                                                       int64_t row, int64_t last) {
  AmxStepData* const data = step.data;
  for (; row < last; ++row) {
    const int64_t i = 16 * step.block + row;
    __mmask16 see[4] = {};
    if constexpr (kMasked) {
      const KeyRange keys = keys_of(a.item, i, step.tile);
      for (int v = 0; v < 4; ++v) {
        const __m512i key = key_of_lane(v);
        see[v] = _mm512_cmpge_epi32_mask(key, _mm512_set1_epi32(static_cast<int>(keys.begin))) &
                 _mm512_cmplt_epi32_mask(key, _mm512_set1_epi32(static_cast<int>(keys.end)));
      }
    }
    FixedScores fixed = fixed_scores<kMasked>(data->rows[row].scores, see, a.references[i]);
    if (!fixed.fit()) {
      FixedScores fitted;
      fit_scores<kMasked>(a, step, row, see, &fitted);
      fixed = fitted;
    }
    __m512i p[4];
    QUIRE_UNROLL for (int v = 0; v < 4; ++v) {
      p[v] = exponential(fixed.t[v]);
      if constexpr (kMasked) p[v] = _mm512_maskz_mov_epi32(see[v], p[v]);
    }
    const F32 sum =
        add(add(as_f32(I32{p[0]}), as_f32(I32{p[1]})), add(as_f32(I32{p[2]}), as_f32(I32{p[3]})));
    store(a.sums + 16 * i, add(load(a.sums + 16 * i), sum));
    QUIRE_UNROLL for (int half = 0; half < 2; ++half) {
      const __m512i even = p[2 * half], odd = p[2 * half + 1];
      store_line(data->rows[row].p[half][0], high_halves(even, odd));
      store_line(data->rows[row].p[half][1], high_halves(below_high(even), below_high(odd)));
    }
  }
}

}  // namespace quire::QUIRE_ISA
