#include "base/cpu_topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace quire {
namespace {

TEST(CpuTopology, IsPlausibleOnThisMachine) {
  const CpuTopology topology = read_cpu_topology();
  EXPECT_FALSE(topology.cpus.empty());
  EXPECT_GE(topology.physical_cores, 1);
  EXPECT_LE(topology.physical_cores, static_cast<int>(topology.cpus.size()));
  EXPECT_GE(topology.usable_threads, 1);
  EXPECT_LE(topology.usable_threads, topology.physical_cores);
  EXPECT_FALSE(topology.model_name.empty());
}

TEST(CpuTopology, HyperthreadsOfACoreCountOnce) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "topology_test";
  std::filesystem::remove_all(root);
  const char* siblings[] = {"0,2", "1,3", "0,2", "1,3"};
  for (int cpu = 0; cpu < 4; ++cpu) {
    const auto folder = root / ("cpu" + std::to_string(cpu)) / "topology";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "thread_siblings_list") << siblings[cpu] << "\n";
  }
  EXPECT_EQ(one_cpu_per_core({0, 1, 2, 3}, root.string()), (std::vector<int>{0, 1}));
  EXPECT_EQ(one_cpu_per_core({2, 3}, root.string()), (std::vector<int>{2, 3}));
  EXPECT_EQ(one_cpu_per_core({0, 8, 9}, root.string()), (std::vector<int>{0, 8, 9}))
      << "unknown: a core each";
  std::filesystem::remove_all(root);
}

TEST(CpuTopology, AQuotaBoundsTheThreads) {
  EXPECT_EQ(usable_threads(8, 0), 8) << "no limit";
  EXPECT_EQ(usable_threads(8, 3.0), 3);
  EXPECT_EQ(usable_threads(8, 3.9), 3) << "a thread that runs for a part of each period stops all";
  EXPECT_EQ(usable_threads(8, 0.25), 1);
  EXPECT_EQ(usable_threads(8, 8.5), 8);
  EXPECT_EQ(usable_threads(2, 16.0), 2);
}

TEST(CpuTopology, TheQuotaIsThatOfTheControlGroup) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "quota_test";
  std::filesystem::remove_all(root);
  const auto write = [&](const std::string& path, const char* text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  write("proc/self/cgroup", "0::/pod/app\n");
  write("proc/self/mountinfo", "31 30 0:27 / /cg rw - cgroup2 cgroup rw\n");
  write("cg/pod/app/cpu.max", "max 100000\n");
  const CpuTopology free = read_cpu_topology(root.string());
  EXPECT_EQ(free.quota, 0);
  EXPECT_EQ(free.usable_threads, free.physical_cores);
  write("cg/pod/cpu.max", "150000 100000\n");
  const CpuTopology limited = read_cpu_topology(root.string());
  EXPECT_EQ(limited.quota, 1.5);
  EXPECT_EQ(limited.usable_threads, 1);
  std::filesystem::remove_all(root);
}

TEST(CpuTopology, TooManyThreadsAreWarnedOf) {
  CpuTopology topology;
  topology.cpus = {0, 1, 2, 3};
  topology.physical_cores = topology.usable_threads = 4;
  EXPECT_EQ(too_many_threads(4, topology), "");
  EXPECT_EQ(too_many_threads(5, topology), "5 kernel threads on 4 CPUs: slower than --threads 4");
  topology.quota = 2.5;
  topology.usable_threads = usable_threads(4, topology.quota);
  EXPECT_EQ(too_many_threads(2, topology), "");
  EXPECT_NE(too_many_threads(3, topology).find("a cgroup quota of 2.5 CPUs"), std::string::npos);
  EXPECT_NE(too_many_threads(3, topology).find("--threads 2"), std::string::npos);
  EXPECT_NE(too_many_threads(5, topology).find("on 4 CPUs"), std::string::npos);
  topology.quota = 0.5;
  topology.usable_threads = usable_threads(4, topology.quota);
  EXPECT_EQ(too_many_threads(1, topology), "") << "fewer are not possible";
}

TEST(MemoryLimits, FreeIsWithinTotal) {
  const MemoryLimits memory = read_memory_limits();
  EXPECT_GT(memory.total_bytes, 0u);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
  EXPECT_GT(resident_anon_bytes(), 0u);
}

}  // namespace
}  // namespace quire
