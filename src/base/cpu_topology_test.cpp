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

TEST(MemoryLimits, FreeIsWithinTotal) {
  const MemoryLimits memory = read_memory_limits();
  EXPECT_GT(memory.total_bytes, 0u);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
  EXPECT_GT(resident_anon_bytes(), 0u);
}

}  // namespace
}  // namespace quire
