// Integer matrix products with vpdpbusd where other vector operations have ports of their own
// (AMD).
#define QUIRE_ISA vnni
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_vnni(MatmulKernels* table) { vnni::fill_integers(table); }

}  // namespace quire
