// Construction, and what the start log says.
#include "backend/cpu/cpu_backend.h"

namespace quire {

CpuBackend::CpuBackend(const KernelTable& kernels, ComputeDType dtype,
                       const ThreadPool::Options& threads)
    : kernels_(kernels), dtype_(dtype), pool_(threads) {
  if (kernels.mm.integers_as_bf16) {
    const auto floats = pool_.size() * kernels.mm.row_block * 2 * kPanelStrips * kStrip;
    gate_scratch_ = Buffer(static_cast<std::size_t>(floats) * sizeof(float));
  }
}

std::string CpuBackend::description() const {
  return fmt::format("cpu ({}, {} thread{})", kernels_.name, pool_.size(),
                     pool_.size() == 1 ? "" : "s");
}

}  // namespace quire
