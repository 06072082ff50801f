// Integer matrix products with usdot, which multiplies unsigned weights as they are.
#define QUIRE_ISA i8mm
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_i8mm(MatmulKernels* table) { i8mm::fill_integers(table); }

}  // namespace quire
