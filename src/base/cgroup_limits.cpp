#include "base/cgroup_limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

namespace quire {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool has_item(std::string_view comma_list, std::string_view item) {
  for (std::string_view part : split(comma_list, ',')) {
    if (part == item) return true;
  }
  return false;
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

// Folders of the group and its parents inside the mount, innermost first.
std::vector<std::string> group_folders(const std::string& root, const CgroupMount& mount,
                                       std::string path) {
  // In a container without a cgroup namespace the path is the host's, and the mount shows only our
  // part of it.
  if (mount.root != "/" && path.starts_with(mount.root)) path = path.substr(mount.root.size());
  if (path.find("/..") != std::string::npos) path.clear();
  std::vector<std::string> folders;
  const std::string top = root + mount.point;
  while (!path.empty() && path != "/") {
    folders.push_back(top + path);
    path = path.substr(0, path.rfind('/'));
  }
  folders.push_back(top);
  return folders;
}

void lower(std::optional<std::uint64_t>& limit, std::uint64_t value) {
  limit = limit ? std::min(*limit, value) : value;
}

void add_quota(double quota, CgroupLimits* limits) {
  if (quota > 0)
    limits->cpu_quota = limits->cpu_quota > 0 ? std::min(limits->cpu_quota, quota) : quota;
}

void add_memory(const std::string& folder, bool v2, CgroupLimits* limits) {
  const auto limit =
      parse_memory_limit(read_text_file(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes")));
  if (!limit) return;
  lower(limits->memory_limit, *limit);
  const auto usage =
      parse_u64(read_text_file(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes")));
  if (!usage) return;
  // File pages (a mapped model among them) are given up under pressure, so they are not in the way.
  const std::string stat = read_text_file(folder + "/memory.stat");
  const std::string prefix = v2 ? "" : "total_";
  const std::uint64_t cache = parse_stat_line(stat, prefix + "inactive_file").value_or(0) +
                              parse_stat_line(stat, prefix + "active_file").value_or(0);
  const std::uint64_t taken = *usage - std::min(*usage, cache);
  lower(limits->memory_headroom, *limit - std::min(*limit, taken));
}

}  // namespace

std::string read_text_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::optional<std::string> parse_cgroup_path(std::string_view proc_cgroup,
                                             std::string_view controller) {
  for (std::string_view line : split(proc_cgroup, '\n')) {  // "4:memory:/a/b", "0::/a/b"
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : has_item(names, controller))
      return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

std::optional<CgroupMount> parse_cgroup_mount(std::string_view mountinfo,
                                              std::string_view controller) {
  for (std::string_view line : split(mountinfo, '\n')) {
    // "36 35 0:31 ROOT POINT rw,... [optional fields] - TYPE SOURCE rw,CONTROLLERS"
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto left = split(line.substr(0, dash), ' ');
    const auto right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool match = controller.empty() ? right[0] == "cgroup2"
                                          : right[0] == "cgroup" && has_item(right[2], controller);
    if (match) return CgroupMount{std::string(left[3]), std::string(left[4])};
  }
  return std::nullopt;
}

double parse_cpu_max(std::string_view text) {
  const auto parts = split(text, ' ');
  const auto quota = parse_u64(parts[0]);
  const auto period = parts.size() > 1 ? parse_u64(parts[1]) : std::optional<std::uint64_t>(100000);
  if (!quota || !period || *period == 0) return 0;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<std::uint64_t> parse_memory_limit(std::string_view text) {
  const auto value = parse_u64(text);
  // v1 says "unlimited" as the largest multiple of the page size that fits in 63 bits.
  if (!value || *value >= (std::uint64_t{1} << 62)) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_stat_line(std::string_view text, std::string_view key) {
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    std::string_view rest = line.substr(key.size());
    if (rest.starts_with(':'))
      rest.remove_prefix(1);
    else if (!rest.starts_with(' '))
      continue;
    const auto value = parse_u64(rest);
    if (!value) return std::nullopt;
    return rest.ends_with("kB") ? *value * 1024 : *value;
  }
  return std::nullopt;
}

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const std::string groups = read_text_file(root + "/proc/self/cgroup");
  const std::string mounts = read_text_file(root + "/proc/self/mountinfo");
  const auto folders = [&](std::string_view controller) -> std::vector<std::string> {
    const auto path = parse_cgroup_path(groups, controller);
    const auto mount = parse_cgroup_mount(mounts, controller);
    if (!path || !mount) return {};
    return group_folders(root, *mount, *path);
  };
  for (const std::string& folder : folders("")) {
    add_quota(parse_cpu_max(read_text_file(folder + "/cpu.max")), &limits);
    add_memory(folder, true, &limits);
  }
  for (const std::string& folder : folders("cpu")) {
    // Quota -1 (none) is no unsigned number, hence 0.
    add_quota(parse_cpu_max(read_text_file(folder + "/cpu.cfs_quota_us") + " " +
                            read_text_file(folder + "/cpu.cfs_period_us")),
              &limits);
  }
  for (const std::string& folder : folders("memory")) add_memory(folder, false, &limits);
  return limits;
}

}  // namespace quire
