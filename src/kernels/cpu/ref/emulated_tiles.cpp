// The tiles over the plain-array vector: every tile's order of additions, testable on every
// machine.
#define QUIRE_ISA emulated
#define QUIRE_VEC_SCALAR
#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/tiles/fill.h"

namespace quire {

void fill_matmul_emulated(MatmulKernels* table) {
  emulated::fill_integers(table);
  emulated::fill_floats(table);
  emulated::fill_bf16(table);
  emulated::fill_activations(table);
}
void fill_matmul_emulated_pairs(MatmulKernels* table) {
  fill_matmul_emulated(table);
  table->matmul[static_cast<int>(PackedKind::kBF16)][static_cast<int>(ActForm::kBF16)] =
      emulated::bf16_matmul;
}

}  // namespace quire
