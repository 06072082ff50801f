// The float32 value of stored weights, element by element: the definition that every faster path is
// held to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace quire {

// True for the types that matrix products take as they are: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0,
// Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, G4, G8 and F8. Others are converted at load
// (lossless.h).
bool is_dequantizable(DType dtype);
// True for the types that dequantize_row knows: all but integers, booleans and F64.
bool is_readable(DType dtype);

// One row of `columns` elements (a whole number of blocks) at `row`, of any alignment.  out:
// [columns] Products are rounded before they are added (no FMA): d*q + m; K-quants (d*sc)*q -
// (dmin*m). The dtype must be readable.
void dequantize_row(DType dtype, const std::byte* row, std::int64_t columns, float* out);

}  // namespace quire
