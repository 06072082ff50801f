// Matrix products for AVX2, FMA and F16C.
#define QUIRE_ISA avx2
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_avx2(MatmulKernels* table) {
  avx2::fill_integers(table);
  avx2::fill_floats(table);
  avx2::fill_bf16(table);
  avx2::fill_activations(table);
}

}  // namespace quire
