// Packing of the float kinds: a transposition of 16 rows at a time. Loading a model is bound by it,
// so it runs on 4 x 4 blocks of 32 bits in registers, on every instruction set alike.
#pragma once

#include <cstdint>

#include "kernels/cpu/packed.h"

namespace quire {

// Strips [first, first + strips) of one panel, whole: padding is zeros. rows: row 0 of the matrix;
// out: the panel's first unit.
void pack_float_panel(const PackedShape& shape, DType stored, const std::uint8_t* rows,
                      std::int64_t row_bytes, std::int64_t first, std::int64_t strips,
                      std::uint8_t* out);

}  // namespace quire
