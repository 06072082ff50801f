// The vector kernels over the scalar emulation of the wrapper, for tests on every machine.
#define QUIRE_ISA emulated
#define QUIRE_VEC_SCALAR
#include "kernels/cpu/tiles/attention.h"

namespace quire {
void fill_vector_kernels_emulated(VectorKernels* kernels) {
  emulated::fill_vector_kernels(kernels);
}
}  // namespace quire
