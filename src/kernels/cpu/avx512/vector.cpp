// Norms, activation, RoPE, KV store and attention for AVX-512 (F, BW, VL, DQ).
#define QUIRE_ISA avx512
#include "kernels/cpu/tiles/attention.h"

namespace quire {
void fill_vector_kernels_avx512(VectorKernels* kernels) { avx512::fill_vector_kernels(kernels); }
}  // namespace quire
