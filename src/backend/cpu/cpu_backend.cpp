// Construction, and what the start log says.
#include "backend/cpu/cpu_backend.h"

namespace quire {

CpuBackend::CpuBackend(const KernelTable& kernels, ComputeDType dtype,
                       const ThreadPool::Options& threads)
    : kernels_(kernels), dtype_(dtype), pool_(threads) {}

std::string CpuBackend::description() const {
  return fmt::format("cpu ({}, {} thread{})", kernels_.name, pool_.size(),
                     pool_.size() == 1 ? "" : "s");
}

}  // namespace quire
