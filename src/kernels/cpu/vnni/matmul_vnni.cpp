// Integer matrix products with vpdpbusd.
#define QUIRE_ISA vnni
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_vnni(MatmulKernels* table) { vnni::fill_integers(table); }

}  // namespace quire
