#include "base/cpu_topology.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "base/cgroup_limits.h"

namespace quire {
namespace {

std::vector<int> affinity_cpus() {
  // The kernel's mask may be wider than cpu_set_t; grow until it fits.
  for (int bits = 1024; bits <= (1 << 20); bits *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(bits));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(bits));
    CPU_ZERO_S(bytes, set);
    std::vector<int> cpus;
    if (sched_getaffinity(0, bytes, set) == 0) {
      for (int cpu = 0; cpu < bits; ++cpu) {
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

std::string cpu_model_name(const std::string& cpuinfo) {
  const std::size_t at = cpuinfo.find("model name");
  if (at == std::string::npos) return "unknown CPU";
  const std::size_t colon = cpuinfo.find(": ", at), end = cpuinfo.find('\n', at);
  if (colon == std::string::npos || colon > end) return "unknown CPU";
  return cpuinfo.substr(colon + 2, end - colon - 2);
}

}  // namespace

std::vector<int> one_cpu_per_core(const std::vector<int>& cpus, const std::string& sys_cpu_folder) {
  std::vector<int> first;
  std::set<std::string> seen;
  for (int cpu : cpus) {
    const std::string siblings = read_text_file(sys_cpu_folder + "/cpu" + std::to_string(cpu) +
                                                "/topology/thread_siblings_list");
    if (siblings.empty() || seen.insert(siblings).second) first.push_back(cpu);
  }
  return first;
}

int usable_threads(int physical_cores, double quota) {
  if (quota <= 0 || quota >= physical_cores) return physical_cores;
  return std::max(1, static_cast<int>(std::floor(quota)));
}

std::string too_many_threads(int threads, const CpuTopology& topology) {
  const auto cpus = static_cast<int>(topology.cpus.size());
  if (threads > cpus) {
    return fmt::format("{} kernel threads on {} CPUs: slower than --threads {}", threads, cpus,
                       topology.usable_threads);
  }
  if (topology.quota > 0 && threads > topology.quota && threads > topology.usable_threads) {
    return fmt::format(
        "{} kernel threads under a cgroup quota of {:g} CPUs: "
        "all of them are stopped for a part of each period; slower than --threads {}",
        threads, topology.quota, topology.usable_threads);
  }
  return "";
}

CpuTopology read_cpu_topology(const std::string& cgroup_root) {
  CpuTopology topology;
  topology.cpus = affinity_cpus();
  topology.quota = read_cgroup_limits(cgroup_root).cpu_quota;
  topology.core_cpus = one_cpu_per_core(topology.cpus, "/sys/devices/system/cpu");
  topology.physical_cores = static_cast<int>(topology.core_cpus.size());
  topology.usable_threads = usable_threads(topology.physical_cores, topology.quota);
  topology.model_name = cpu_model_name(read_text_file("/proc/cpuinfo"));
  return topology;
}

MemoryLimits read_memory_limits() {
  const std::string meminfo = read_text_file("/proc/meminfo");
  MemoryLimits memory;
  memory.total_bytes = parse_stat_line(meminfo, "MemTotal").value_or(0);
  memory.free_bytes = parse_stat_line(meminfo, "MemAvailable").value_or(memory.total_bytes);
  const CgroupLimits limits = read_cgroup_limits("");
  if (limits.memory_limit) memory.total_bytes = std::min(memory.total_bytes, *limits.memory_limit);
  if (limits.memory_headroom)
    memory.free_bytes = std::min(memory.free_bytes, *limits.memory_headroom);
  memory.free_bytes = std::min(memory.free_bytes, memory.total_bytes);
  return memory;
}

std::uint64_t resident_anon_bytes() {
  return parse_stat_line(read_text_file("/proc/self/status"), "RssAnon").value_or(0);
}

}  // namespace quire
