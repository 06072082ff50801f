// Stored types that no matrix product takes as they are, converted at load to the nearest type that
// one does and that loses nothing.
#pragma once

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace quire {

// A type that holds every value of `stored` exactly and that matrix products take:
//   itself         F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS
//                  MXFP4 G4_* G8_* F8_*
//   Q6_K           IQ3_S: an eight-bit scale per 16 and six-bit values hold it
//   Q4_0           TQ1_0, TQ2_0
//   BF16           NVFP4, F8_E4M3, F8_E5M2: at most six significant bits
//   F32            IQ3_XXS, IQ2_*, IQ1_*, and what cannot be read at all
DType lossless_target(DType stored);

// A row of `columns` elements of a readable type, in lossless_target(stored), to out:
// [row_bytes(target, columns)].
void convert_row(DType stored, const std::byte* row, std::int64_t columns, std::byte* out);

// The matrix itself, or a copy of it of the target's type in *storage, which must outlive the
// result.
TensorView as_lossless(const TensorView& matrix, Buffer* storage);

}  // namespace quire
