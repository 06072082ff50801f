// Rows of activations at the door of a matrix product: int8 with a scale per 32, or bf16.
#pragma once

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/tiles/unroll.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kDoorGroups = 16;  // groups whose scales are one vector

// 16 elements at k of a row that ends at `k_end`, zero behind it.
QUIRE_INLINE F32 load_until(const float* x, int64_t at, int64_t k_end) {
  const int64_t left = k_end - at;
  return left >= 16 ? load(x + at) : left > 0 ? load_n(x + at, static_cast<int>(left)) : zero();
}

inline void quantize_row(const float* x, int64_t k, int64_t padded_k, int8_t* q, float* scale,
                         float* sum, int32_t* isum) {
  const I32 magnitude = set1_i32(0x7fffffff);
  const F32 low = set1(-127.0f), high = set1(127.0f), tiny = set1(kTinyGroup);
  const int64_t groups = padded_k / kActGroup;
  for (int64_t first = 0; first < groups; first += kDoorGroups) {
    const int64_t rest = groups - first;
    const int count = static_cast<int>(rest < kDoorGroups ? rest : kDoorGroups);
    alignas(64) float tops[kDoorGroups] = {}, inverses[kDoorGroups];
    for (int i = 0; i < count; ++i) {
      // max gives its second operand when either is NaN: a NaN input is not the group's maximum.
      const int64_t at = (first + i) * kActGroup;
      const F32 a = as_f32(bit_and(as_i32(load_until(x, at, k)), magnitude));
      const F32 b = as_f32(bit_and(as_i32(load_until(x, at + 16, k)), magnitude));
      tops[i] = hmax(max(b, max(a, zero())));
    }
    const F32 top = load(tops);
    const F32 scales = select_lt(top, tiny, zero(), div(top, high));
    store(inverses, select_lt(top, tiny, zero(), div(high, top)));
    alignas(64) int32_t totals[kDoorGroups] = {};
    for (int i = 0; i < count; ++i) {
      const F32 inverse = set1(inverses[i]);
      const int64_t at = (first + i) * kActGroup;
      QUIRE_UNROLL for (int h = 0; h < 2; ++h) {
        const F32 scaled = mul(load_until(x, at + 16 * h, k), inverse);
        const int32_t s = store_codes(q + at + 16 * h, round_i32(min(max(scaled, low), high)));
        isum[2 * (first + i) + h] = s;
        totals[i] += s;
      }
    }
    store_n(scale + first, scales, count);
    store_n(sum + first, mul(scales, to_f32(load_i32(totals))), count);
  }
}

inline void round_row_bf16(const float* x, int64_t k, int64_t padded_k, float factor,
                           uint16_t* out) {
  const F32 by = set1(factor);
  for (int64_t i = 0; i < padded_k; i += 16) {
    const int64_t want = padded_k - i;
    store_bf16_n(out + i, mul(load_until(x, i, k), by), want < 16 ? static_cast<int>(want) : 16);
  }
}

}  // namespace quire::QUIRE_ISA
