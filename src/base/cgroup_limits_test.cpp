#include "base/cgroup_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace quire {
namespace {

TEST(CgroupLimits, FindsThePathOfAController) {
  const char* text = "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/unified/d\n";
  EXPECT_EQ(parse_cgroup_path(text, "memory"), "/a/b");
  EXPECT_EQ(parse_cgroup_path(text, "cpu"), "/c");
  EXPECT_EQ(parse_cgroup_path(text, ""), "/unified/d");
  EXPECT_EQ(parse_cgroup_path(text, "pids"), std::nullopt);
  EXPECT_EQ(parse_cgroup_path("", ""), std::nullopt);
  EXPECT_EQ(parse_cgroup_path("nonsense\n1:cpu", "cpu"), std::nullopt);
}

TEST(CgroupLimits, FindsTheMountOfAController) {
  const char* text =
      "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
      "31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup rw\n"
      "33 30 0:29 /docker/1 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
  ASSERT_TRUE(parse_cgroup_mount(text, "").has_value());
  EXPECT_EQ(parse_cgroup_mount(text, "")->point, "/sys/fs/cgroup/unified");
  EXPECT_EQ(parse_cgroup_mount(text, "cpu")->root, "/docker/1");
  EXPECT_FALSE(parse_cgroup_mount(text, "memory").has_value());
}

TEST(CgroupLimits, ParsesNumbers) {
  EXPECT_DOUBLE_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_DOUBLE_EQ(parse_cpu_max("max 100000\n"), 0);
  EXPECT_DOUBLE_EQ(parse_cpu_max("-1 100000\n"), 0);
  EXPECT_DOUBLE_EQ(parse_cpu_max("100000 0"), 0);
  EXPECT_DOUBLE_EQ(parse_cpu_max(""), 0);
  EXPECT_EQ(parse_memory_limit("1048576\n"), 1048576u);
  EXPECT_EQ(parse_memory_limit("max\n"), std::nullopt);
  EXPECT_EQ(parse_memory_limit("9223372036854771712\n"), std::nullopt);
  EXPECT_EQ(parse_stat_line("MemTotal:  100 kB\nMemAvailable:   7 kB\n", "MemAvailable"),
            7 * 1024u);
  EXPECT_EQ(parse_stat_line("active_file 5\ninactive_file 9\n", "inactive_file"), 9u);
  EXPECT_EQ(parse_stat_line("inactive_file_x 9\n", "inactive_file"), std::nullopt);
}

class CgroupTree : public testing::Test {
 protected:
  CgroupTree() {
    root_ =
        std::filesystem::path(testing::TempDir()) /
        ("cgroup_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(root_);
  }
  ~CgroupTree() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    const auto file = root_.string() + path;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << text;
  }
  std::filesystem::path root_;
};

TEST_F(CgroupTree, TakesTheTightestLimitOfAllParentsInVersion2) {
  write("/proc/self/cgroup", "0::/pod/app\n");
  write("/proc/self/mountinfo", "31 30 0:27 / /cg rw - cgroup2 cgroup rw\n");
  write("/cg/pod/app/cpu.max", "400000 100000\n");
  write("/cg/pod/cpu.max", "250000 100000\n");
  write("/cg/pod/app/memory.max", "max\n");
  write("/cg/pod/memory.max", "1000\n");
  write("/cg/pod/memory.current", "900\n");
  write("/cg/pod/memory.stat", "anon 500\ninactive_file 250\nactive_file 150\n");
  const CgroupLimits limits = read_cgroup_limits(root_.string());
  EXPECT_DOUBLE_EQ(limits.cpu_quota, 2.5);
  EXPECT_EQ(limits.memory_limit, 1000u);
  EXPECT_EQ(limits.memory_headroom, 500u);
}

TEST_F(CgroupTree, ReadsVersion1InsideAContainer) {
  write("/proc/self/cgroup", "4:memory:/docker/1\n1:cpu,cpuacct:/docker/1\n0::/\n");
  write("/proc/self/mountinfo",
        "33 30 0:29 /docker/1 /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "34 30 0:30 /docker/1 /cg/memory rw - cgroup cgroup rw,memory\n");
  write("/cg/cpu/cpu.cfs_quota_us", "50000\n");
  write("/cg/cpu/cpu.cfs_period_us", "100000\n");
  write("/cg/memory/memory.limit_in_bytes", "2000\n");
  write("/cg/memory/memory.usage_in_bytes", "700\n");
  write("/cg/memory/memory.stat",
        "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 100\n");
  const CgroupLimits limits = read_cgroup_limits(root_.string());
  EXPECT_DOUBLE_EQ(limits.cpu_quota, 0.5);
  EXPECT_EQ(limits.memory_limit, 2000u);
  EXPECT_EQ(limits.memory_headroom, 1500u);
}

TEST_F(CgroupTree, NothingMountedMeansNoLimit) {
  const CgroupLimits limits = read_cgroup_limits(root_.string());
  EXPECT_EQ(limits.cpu_quota, 0);
  EXPECT_FALSE(limits.memory_limit.has_value());
}

}  // namespace
}  // namespace quire
