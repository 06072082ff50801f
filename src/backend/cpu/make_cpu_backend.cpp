// Chooses kernels and threads for this machine.
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/cpu_topology.h"
#include "base/log.h"

namespace quire {

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options) {
  constexpr int kMaxThreads = 1024;
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return field_error("--threads", "--threads {} is out of range: 1 to {}, or 0 to use every core",
                       options.threads, kMaxThreads);
  }
  QUIRE_ASSIGN(const KernelTable* kernels, select_kernels(options.kernels));
  const CpuTopology topology = read_cpu_topology();
  ThreadPool::Options threads;
  threads.threads = options.threads > 0 ? options.threads : topology.usable_threads;
  const auto cpus = static_cast<int>(topology.cpus.size());
  threads.spin =
      threads.threads <= cpus && (topology.quota <= 0 || threads.threads <= topology.quota);
  // With a core for each thread; fewer threads leave the choice to the scheduler, for others to fit
  // in.
  if (threads.threads == topology.physical_cores && threads.spin)
    threads.pin_cpus = topology.core_cpus;
  if (const std::string warning = too_many_threads(threads.threads, topology); !warning.empty())
    log_warning("{}", warning);
  return std::make_unique<CpuBackend>(*kernels, options.dtype, threads);
}

}  // namespace quire
