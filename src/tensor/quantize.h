// Rounds plain numbers to quantized blocks: what --quantization int8|int4 does to a model's
// matrices while they are loaded. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace quire {

// One row of `columns` numbers (a multiple of 32) as Q8_0 or Q4_0, to the nearest code.
//   Q8_0  the scale is max|x| / 127 of each 32
//   Q4_0  the number of largest size becomes -8 of some scale; of a few smaller scales too, the one
//         with the least squared error is taken
// out: [row_bytes(target, columns)]
void quantize_row(DType target, const float* x, std::int64_t columns, std::byte* out);

}  // namespace quire
