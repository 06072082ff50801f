// `quire list`: the models in the cache, one line per revision.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/flags.h"
#include "hub/inventory.h"
#include "hub/partial_file.h"

namespace quire {
namespace {

std::string time_text(std::int64_t unix_s) {
  if (unix_s == 0) return "-";
  const std::time_t time = unix_s;
  std::tm local = {};
  localtime_r(&time, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local);
  return text.data();
}

std::string revision_text(const CachedRevision& revision) {
  if (revision.commit.empty()) return "-";
  const std::string commit = revision.commit.substr(0, 12);
  return revision.refs.empty() ? commit : fmt::format("{} ({})", revision.refs, commit);
}

std::string size_text(const CachedRevision& revision) {
  std::string text = format_bytes(revision.size);
  if (revision.partial > 0) text += fmt::format(" + {} unfinished", format_bytes(revision.partial));
  return text;
}

int run_list(const HubFlags& flags) {
  const Result<HubSettings> settings = read_hub_settings(flags);
  if (!settings) return fail(settings.error());
  std::vector<std::array<std::string, 5>> rows = {
      {"MODEL", "REVISION", "WEIGHTS", "SIZE", "LAST USE"}};
  for (const CachedRevision& r : list_cache(settings->cache_dir))
    rows.push_back({r.repo, revision_text(r), r.weights, size_text(r), time_text(r.last_used_s)});
  if (rows.size() == 1) {
    std::fprintf(stderr, "no models in %s\n", settings->cache_dir.c_str());
    return 0;
  }
  std::array<std::size_t, 5> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      line += fmt::format("{:{}}  ", row[i], widths[i]);
    std::printf("%s%s\n", line.c_str(), row.back().c_str());
  }
  return 0;
}

}  // namespace

Command add_list(CLI::App& command) {
  auto flags = std::make_shared<HubFlags>();
  command.add_option("--download-dir", flags->download_dir,
                     "Cache of models (default: HF_HUB_CACHE, else HF_HOME/hub)");
  return [flags] { return run_list(*flags); };
}

}  // namespace quire
