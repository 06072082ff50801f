// What this process may use of the machine: CPUs (affinity and cgroup quota) and memory
// (cgroup-aware).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

struct CpuTopology {
  std::vector<int> cpus;       // logical CPUs of the affinity mask, ascending
  double quota = 0;            // CPUs' worth of time that the cgroup allows; 0: no limit
  std::vector<int> core_cpus;  // the first CPU of each physical core among `cpus`: where kernel
                               // threads are pinned
  int physical_cores = 0;      // distinct cores among `cpus`; hyperthreads of a core count once
  int usable_threads = 1;      // min(physical cores, floor of the quota), at least 1
  std::string model_name;      // e.g. "Intel(R) Xeon(R) Processor"
};
// cgroup_root: what files of control groups are read under; "" for the machine itself.
CpuTopology read_cpu_topology(const std::string& cgroup_root = "");
// quota: CPUs' worth of time; 0: no limit.
int usable_threads(int physical_cores, double quota);
// What is wrong with so many kernel threads here; empty: nothing.
std::string too_many_threads(int threads, const CpuTopology& topology);
// Of CPUs that share a core, the first; sys_cpu_folder holds cpuN/topology/thread_siblings_list.
std::vector<int> one_cpu_per_core(const std::vector<int>& cpus, const std::string& sys_cpu_folder);

struct MemoryLimits {
  std::uint64_t total_bytes = 0;  // min(machine's memory, cgroup v1/v2 limit)
  std::uint64_t free_bytes = 0;  // what this process may still take (MemAvailable, cgroup headroom)
};
MemoryLimits read_memory_limits();

// Resident anonymous memory of this process (RssAnon of /proc/self/status).
std::uint64_t resident_anon_bytes();

}  // namespace quire
