// CPU quota and memory limit that Linux control groups (v1, v2, or both mounted) put on this
// process, in its own group and in every parent. Files are read under a root prefix, so that tests
// can lay out a tree of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

struct CgroupLimits {
  double cpu_quota = 0;                          // smallest quota in CPUs; 0: none
  std::optional<std::uint64_t> memory_limit;     // smallest limit
  std::optional<std::uint64_t> memory_headroom;  // smallest limit - (usage - file cache)
};
// root: "" for the machine itself.
CgroupLimits read_cgroup_limits(const std::string& root);

// Path of `controller` in the text of /proc/self/cgroup; the unified (v2) line for "". nullopt: not
// listed.
std::optional<std::string> parse_cgroup_path(std::string_view proc_cgroup,
                                             std::string_view controller);

struct CgroupMount {
  std::string root;  // the group that is mounted at `point`
  std::string point;
};
// Mount of a v1 controller, or of the unified hierarchy for "", in the text of
// /proc/self/mountinfo.
std::optional<CgroupMount> parse_cgroup_mount(std::string_view mountinfo,
                                              std::string_view controller);

// "150000 100000" is 1.5 CPUs, "max 100000" is 0 (no limit).
double parse_cpu_max(std::string_view text);
// Bytes; "max", values at the kernel's "unlimited" mark, or no number: nullopt.
std::optional<std::uint64_t> parse_memory_limit(std::string_view text);
// Value of a line "key 123" or "Key:  123 kB" (then in bytes).
std::optional<std::uint64_t> parse_stat_line(std::string_view text, std::string_view key);

std::string read_text_file(const std::string& path);  // empty when unreadable

}  // namespace quire
