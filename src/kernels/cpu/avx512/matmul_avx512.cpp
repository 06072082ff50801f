// Matrix products for AVX-512 (F, BW, VL, DQ).
#define QUIRE_ISA avx512
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_avx512(MatmulKernels* table) {
  avx512::fill_integers(table);
  avx512::fill_floats(table);
  avx512::fill_bf16(table);
  avx512::fill_activations(table);
}

}  // namespace quire
