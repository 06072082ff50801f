// Integer matrix products with the vpdpbusd of 256 bits that processors without AVX-512 have.
#define QUIRE_ISA avx_vnni
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_avx_vnni(MatmulKernels* table) { avx_vnni::fill_integers(table); }

}  // namespace quire
