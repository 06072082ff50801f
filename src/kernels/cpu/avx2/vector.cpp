// Norms, activation, RoPE, KV store and attention for AVX2 with FMA and F16C.
#define QUIRE_ISA avx2
#include "kernels/cpu/tiles/attention.h"

namespace quire {
void fill_vector_kernels_avx2(VectorKernels* kernels) { avx2::fill_vector_kernels(kernels); }
}  // namespace quire
