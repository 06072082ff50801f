// Integer matrix products with vpdpbusd where all vector operations share its ports (Intel).
#define QUIRE_ISA vnni_shared
#define QUIRE_SHARED_PORTS
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_vnni_shared(MatmulKernels* table) { vnni_shared::fill_integers(table); }

}  // namespace quire
