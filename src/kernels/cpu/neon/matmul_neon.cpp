// Matrix products for NEON with dotprod and fp16.
#define QUIRE_ISA neon
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_neon(MatmulKernels* table) {
  neon::fill_integers(table);
  neon::fill_floats(table);
  neon::fill_bf16(table);
  neon::fill_activations(table);
}

}  // namespace quire
