// bf16 matrix products with vdpbf16ps.
#define QUIRE_ISA bf16
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_bf16(MatmulKernels* table) { bf16::fill_bf16(table); }

}  // namespace quire
