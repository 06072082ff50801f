// Norms, activation, RoPE, KV store and attention for NEON.
#define QUIRE_ISA neon
#include "kernels/cpu/tiles/attention.h"

namespace quire {
void fill_vector_kernels_neon(VectorKernels* kernels) { neon::fill_vector_kernels(kernels); }
}  // namespace quire
