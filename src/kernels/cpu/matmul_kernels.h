// Matrix products over packed weights: C[m, n] = A[m, k] * W[n, k]^T, one function per (weight
// kind, activation form). Bits of a row of C depend on that row of A and W only, never on m or on
// which panels share a call.
//
// Canonical arithmetic of integer kinds with int8 activations (equal bits on every ISA), per
// output:
//   acc = 0
//   for each group g of 32 k (16 for kQ2K, kQ3K and kQ6K), ascending:
//     i   = sum over k of (q[k] - zero) * a[k]        exact int32
//     acc = fma(float(i) * ws, as, acc)       ws: the weight scale (two-level: d*sc) in f32
//                                             as: the activation scale of those 32 k, or of the
//                                             32 k in which those 16 lie
//     with a minimum: acc = fma(min, asum, acc)       asum = as * float(sum of a), rounded once
// then acc (+ bias) is stored, or added to C.  bias: c = acc + bias; accumulate: c = c + (acc +
// bias). float8 kinds with bf16 activations: acc = fma(sum of a unit's products, scale, acc), units
// ascending.
// Tables whose integers_as_bf16 is set (AMX) multiply integer and float8 kinds with bf16
// activations and weights that are rounded to bf16 on the way; amx/unpack.h has how. Float
// activations (`--dtype float32`): acc = fma(a[k], w[k], acc), k ascending, with w[k] dequantized
// to f32 exactly as dequantize_row gives it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed.h"
#include "tensor/dtype.h"

namespace quire {

enum class ActForm : std::uint8_t { kF32, kBF16, kInt8 };
inline constexpr int kNumActForms = 3;
constexpr std::size_t index_of(ActForm form) { return static_cast<std::size_t>(form); }
// What the activations of a matrix product are turned into at its door.
ActForm act_form_for(PackedKind kind, ComputeDType compute);

// Below this a group of activations counts as zero (127 / max|x| would overflow).
inline constexpr float kTinyGroup = 0x1p-119f;

struct MatmulArgs {
  PackedShape shape;
  const std::byte* weights = nullptr;    // start of the packed matrix
  const void* a = nullptr;               // rows of f32 / bf16 / int8, zero-padded to padded_k
  std::int64_t a_stride = 0;             // elements between rows
  const float* a_scale = nullptr;        // int8: [m, padded_k / 32]
  const float* a_sum = nullptr;          // int8: scale * sum of the group, same shape
  const std::int32_t* a_isum = nullptr;  // int8: integer sum of each 16 k: [m, padded_k / 16]
  std::int64_t scale_stride = 0;  // a_scale, a_sum: elements between rows; a_isum: twice that
  // bf16: what sums are multiplied by, a power of two: the inverse of what the activations were
  // multiplied by.
  float unscale = 1.0f;
  std::int64_t m = 0;  // rows
  std::int64_t panel_begin = 0, panel_end = 0;
  const float* bias = nullptr;  // [n] or null
  bool accumulate = false;      // C += instead of C =
  float* c = nullptr;  // [m, ldc]; columns of these panels are written, padding lanes are not
  std::int64_t ldc = 0;
};
using MatmulFn = void (*)(const MatmulArgs&);

struct MatmulKernels {
  // Integer kinds take bf16 activations, not int8: their products run where bf16's do.
  bool integers_as_bf16 = false;
  // What bf16 activations of those products are multiplied by, since their weights are scaled down
  // so far that sums would be subnormal numbers, which a tile unit takes for zeros.
  float bf16_factor = 1.0f;
  // Rows of one call at most: their activations stay in the second-level cache while panels pass.
  std::int64_t row_block = 192;
  // act_form_for(), for this table.
  ActForm act_form(PackedKind kind, ComputeDType compute) const {
    const ActForm form = act_form_for(kind, compute);
    return form == ActForm::kInt8 && integers_as_bf16 ? ActForm::kBF16 : form;
  }
  // [PackedKind][ActForm]; null where a combination is not allowed (an integer form for float
  // weights, bf16 for others).
  MatmulFn matmul[kNumPackedKinds][kNumActForms] = {};
  // Quantizes one row x[k] to int8, a scale per 32: scale = max|x| / 127; q = x * (127 / max|x|)
  // rounded to nearest even, clamped to +-127; max|x| < kTinyGroup: scale and q are 0. Fills
  // padding up to padded_k with 0.
  void (*quantize_row)(const float* x, std::int64_t k, std::int64_t padded_k, std::int8_t* q,
                       float* scale, float* sum, std::int32_t* isum) = nullptr;
  // Rounds a row times `factor`, a power of two, to bf16 (nearest even), zero padding.
  void (*round_row_bf16)(const float* x, std::int64_t k, std::int64_t padded_k, float factor,
                         std::uint16_t* out) = nullptr;
};

}  // namespace quire
