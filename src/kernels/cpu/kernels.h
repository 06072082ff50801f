// The table of CPU kernels, chosen once per process by what the machine has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/vector_kernels.h"

namespace quire {

struct KernelTable {
  // ref, avx2, avx_vnni, avx512, vnni, bf16, amx, neon, i8mm
  const char* name = "";
  MatmulKernels mm;
  VectorKernels vec;
};

// Best table of this machine for "auto", or the named one; an error lists what the machine has.
// Checks CPUID and that the operating system saves the registers.
Result<const KernelTable*> select_kernels(std::string_view name);
// Every table that this machine can run, "ref" first.
std::vector<const KernelTable*> available_kernels();

}  // namespace quire
