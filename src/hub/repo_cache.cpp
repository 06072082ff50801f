#include "hub/repo_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "hub/model_ref.h"
#include "hub/repo_listing.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "models--";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

tl::unexpected<Error> not_writable(const std::string& path, const std::string& why) {
  return make_error(
      ErrorCode::kInvalidArgument,
      "the model cache is not writable: {}: {}; choose another with --download-dir or HF_HUB_CACHE",
      path, why);
}

// Written whole or not at all.
Status write_text(const fs::path& path, std::string_view text) {
  const fs::path temporary = fmt::format("{}.{}.tmp", path.string(), getpid());
  {
    std::ofstream out(temporary, std::ios::binary);
    out << text;
    out.close();
    if (!out) return not_writable(path.string(), std::strerror(errno));
  }
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) return not_writable(path.string(), error.message());
  return {};
}

bool has_tokenizer(const fs::path& folder) {
  constexpr std::array kNames = {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](const char* name) { return is_file(folder / name); });
}

}  // namespace

std::string repo_folder_name(std::string_view repo) {
  const std::size_t slash = repo.find('/');
  if (slash == repo.npos) return fmt::format("{}{}", kPrefix, repo);
  return fmt::format("{}{}--{}", kPrefix, repo.substr(0, slash), repo.substr(slash + 1));
}

std::optional<std::string> repo_of_folder(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const std::size_t gap = name.find("--");
  if (gap == name.npos) return is_repo_part(name) ? std::optional<std::string>(name) : std::nullopt;
  const std::string_view org = name.substr(0, gap), repo = name.substr(gap + 2);
  if (!is_repo_part(org) || !is_repo_part(repo)) return std::nullopt;
  return fmt::format("{}/{}", org, repo);
}

std::vector<std::string> files_under(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!fs::is_directory(entry->symlink_status(ignored)))
      paths.push_back(entry->path().lexically_relative(folder).generic_string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Status make_cache_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return not_writable(folder, error.message());
  if (access(folder.c_str(), W_OK | X_OK) != 0) return not_writable(folder, std::strerror(errno));
  return {};
}

void touch_last_use(const std::string& path) {
  const std::array<timespec, 2> times = {timespec{0, UTIME_NOW}, timespec{0, UTIME_OMIT}};
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    utimensat(AT_FDCWD, path.c_str(), times.data(), 0);
    return;
  }
  for (const std::string& file : files_under(path))
    touch_last_use((fs::path(path) / file).string());
}

RepoCache::RepoCache(std::string cache_dir, std::string repo)
    : repo_(std::move(repo)),
      cache_dir_(std::move(cache_dir)),
      folder_((fs::path(cache_dir_) / repo_folder_name(repo_)).string()) {}

std::string RepoCache::blob_path(std::string_view blob) const {
  return fmt::format("{}/blobs/{}", folder_, blob);
}
std::string RepoCache::lock_folder() const {
  return fmt::format("{}/.locks/{}", cache_dir_, repo_folder_name(repo_));
}
std::string RepoCache::lock_path(std::string_view blob) const {
  return fmt::format("{}/{}.lock", lock_folder(), blob);
}
std::string RepoCache::snapshot_path(std::string_view commit) const {
  return fmt::format("{}/snapshots/{}", folder_, commit);
}

std::optional<std::string> RepoCache::read_ref(std::string_view revision) const {
  std::string commit = read_file(fs::path(folder_) / "refs" / revision);
  commit.erase(commit.find_last_not_of(" \r\n\t") + 1);
  return is_commit(commit) ? std::optional<std::string>(commit) : std::nullopt;
}

Status RepoCache::write_ref(std::string_view revision, std::string_view commit) const {
  QUIRE_CHECK(is_revision(revision) && is_commit(commit));
  if (read_ref(revision) == std::string(commit)) return {};
  const fs::path path = fs::path(folder_) / "refs" / revision;
  QUIRE_TRY(make_cache_folder(path.parent_path().string()));
  return write_text(path, commit);
}

bool RepoCache::has_file(std::string_view commit, std::string_view path) const {
  return is_file(fs::path(snapshot_path(commit)) / path);
}

Status RepoCache::link_file(std::string_view commit, std::string_view path,
                            std::string_view blob) const {
  QUIRE_CHECK(is_safe_file_name(path) && is_commit(commit));
  const fs::path link = fs::path(snapshot_path(commit)) / path;
  QUIRE_TRY(make_cache_folder(link.parent_path().string()));
  std::string target = "../../blobs/";
  for (const char c : path) {
    if (c == '/') target.insert(0, "../");
  }
  target += blob;
  std::error_code error;
  if (fs::is_symlink(link, error) && fs::read_symlink(link, error) == target) return {};
  const std::string temporary = fmt::format("{}.{}.tmp", link.string(), getpid());
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  if (error) return not_writable(link.string(), error.message());
  fs::rename(temporary, link, error);
  if (error) return not_writable(link.string(), error.message());
  return {};
}

std::optional<std::string> RepoCache::find_part(std::string_view commit, bool needs_config) const {
  const fs::path snapshot = snapshot_path(commit);
  if ((needs_config && !is_file(snapshot / "config.json")) || !has_tokenizer(snapshot))
    return std::nullopt;
  return snapshot.string();
}

std::optional<std::string> RepoCache::find_model(std::string_view commit, std::string_view quant,
                                                 bool exact) const {
  const fs::path snapshot = snapshot_path(commit);
  std::vector<std::string> paths;
  for (std::string& path : files_under(snapshot.string())) {
    if (is_file(snapshot / path)) paths.push_back(std::move(path));
  }
  const Result<WeightFormat> format = choose_format(paths, quant, repo_);
  if (!format) return std::nullopt;
  if (*format == WeightFormat::kGguf) {
    const std::string_view wanted = quant.empty() && exact ? "Q4_K_M" : quant;
    const Result<std::vector<std::string>> files = gguf_files(paths, wanted, repo_);
    return files ? std::optional<std::string>((snapshot / files->front()).string()) : std::nullopt;
  }
  if (!is_file(snapshot / "config.json") || !has_tokenizer(snapshot)) return std::nullopt;
  const bool has_index = is_file(snapshot / kIndexFile);
  const Result<std::vector<std::string>> files =
      safetensors_files(paths, has_index ? read_file(snapshot / kIndexFile) : "", repo_);
  // Shards without their index: the fetching of it was cut short.
  const bool is_part =
      !has_index && files && !files->empty() && files->front().find("-of-") != std::string::npos;
  return files && !files->empty() && !is_part ? std::optional<std::string>(snapshot.string())
                                              : std::nullopt;
}

}  // namespace quire
