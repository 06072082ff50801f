// Norms, activation, RoPE and KV store as for AVX-512; attention over a cache in bf16 on AMX tiles.
#define QUIRE_ISA amx
#include "kernels/cpu/amx/attention_amx.h"

namespace quire {

void fill_vector_kernels_amx(VectorKernels* kernels) {
  amx::fill_vector_kernels(kernels);
  kernels->attention_span = amx::amx_attention_span;
  kernels->prefers_bf16_kv = true;
}

}  // namespace quire
