// Rows of activations at the door of a matrix product: int8 with a scale per 32, or bf16.
#pragma once

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/tiles/unroll.h"

namespace quire::QUIRE_ISA {

inline void quantize_row(const float* x, int64_t k, int64_t padded_k, int8_t* q, float* scale,
                         float* sum, int32_t* isum) {
  const I32 magnitude = set1_i32(0x7fffffff);
  const F32 low = set1(-127.0f), high = set1(127.0f);
  for (int64_t g = 0; g < padded_k / kActGroup; ++g) {
    F32 v[2];
    QUIRE_UNROLL for (int h = 0; h < 2; ++h) {
      const int64_t left = k - (g * kActGroup + 16 * h);
      v[h] = left >= 16 ? load(x + g * kActGroup + 16 * h)
             : left > 0 ? load_n(x + g * kActGroup + 16 * h, static_cast<int>(left))
                        : zero();
    }
    // max gives its second operand when either is NaN: a NaN input is not the group's maximum.
    const F32 tops = max(as_f32(bit_and(as_i32(v[1]), magnitude)),
                         max(as_f32(bit_and(as_i32(v[0]), magnitude)), zero()));
    const float top = hmax(tops);
    const bool tiny = !(top >= kTinyGroup);
    const F32 inverse = set1(tiny ? 0.0f : 127.0f / top);
    int32_t total = 0;
    QUIRE_UNROLL for (int h = 0; h < 2; ++h) {
      const I32 codes = round_i32(min(max(mul(v[h], inverse), low), high));
      store_i8(q + g * kActGroup + 16 * h, codes);
      const int32_t s = hsum(codes);
      isum[2 * g + h] = s;
      total += s;
    }
    scale[g] = tiny ? 0.0f : top / 127.0f;
    sum[g] = scale[g] * static_cast<float>(total);
  }
}

inline void round_row_bf16(const float* x, int64_t k, int64_t padded_k, uint16_t* out) {
  for (int64_t i = 0; i < padded_k; i += 16) {
    const int64_t have = k - i, want = padded_k - i;
    const F32 v = have >= 16 ? load(x + i)
                  : have > 0 ? load_n(x + i, static_cast<int>(have))
                             : zero();
    store_bf16_n(out + i, v, want < 16 ? static_cast<int>(want) : 16);
  }
}

}  // namespace quire::QUIRE_ISA
