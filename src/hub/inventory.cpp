#include "hub/inventory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "hub/file_lock.h"
#include "hub/repo_cache.h"
#include "hub/repo_listing.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// Disk space of a file, not following a link; sparse parts of interrupted downloads do not count.
std::int64_t bytes_on_disk(const fs::path& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return std::min<std::int64_t>(status.st_size, static_cast<std::int64_t>(status.st_blocks) * 512);
}

std::string weights_of(const std::vector<std::string>& paths) {
  std::set<std::string> labels;
  for (const std::string& path : paths) {
    if (path.ends_with(".safetensors")) labels.insert("safetensors");
    if (path.ends_with(".gguf")) labels.insert(gguf_label(path));
  }
  return fmt::format("{}", fmt::join(labels, ","));
}

CachedRevision read_revision(const RepoCache& cache, const std::string& commit) {
  CachedRevision revision;
  revision.repo = cache.repo();
  revision.commit = commit;
  std::vector<std::string> whole;
  for (const std::string& path : files_under(cache.snapshot_path(commit))) {
    struct stat status = {};
    if (stat((fs::path(cache.snapshot_path(commit)) / path).c_str(), &status) != 0) continue;
    revision.size += status.st_size;
    revision.last_used_s = std::max<std::int64_t>(revision.last_used_s, status.st_atime);
    whole.push_back(path);
  }
  if (std::string weights = weights_of(whole); !weights.empty())
    revision.weights = std::move(weights);
  return revision;
}

std::int64_t partial_bytes(const RepoCache& cache) {
  std::int64_t sum = 0;
  const fs::path blobs = fs::path(cache.folder()) / "blobs";
  for (const std::string& path : files_under(blobs.string())) {
    if (path.ends_with(".incomplete")) sum += bytes_on_disk(blobs / path);
  }
  return sum;
}

std::vector<std::string> folders_in(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void add_repo(const RepoCache& cache, std::vector<CachedRevision>& out) {
  std::map<std::string, std::string> refs;  // commit: names
  for (const std::string& name : files_under(cache.folder() + "/refs")) {
    if (const std::optional<std::string> commit = cache.read_ref(name)) {
      std::string& names = refs[*commit];
      names += (names.empty() ? "" : ",") + name;
    }
  }
  const std::size_t before = out.size();
  for (const std::string& commit : folders_in(fs::path(cache.folder()) / "snapshots")) {
    out.push_back(read_revision(cache, commit));
    out.back().refs = refs[commit];
  }
  const std::int64_t partial = partial_bytes(cache);
  if (out.size() == before && partial > 0) {
    CachedRevision& rest = out.emplace_back();
    rest.repo = cache.repo();
  }
  if (out.size() > before) out[before].partial = partial;
}

Status check_idle(const RepoCache& cache) {
  for (const std::string& name : files_under(cache.lock_folder())) {
    if (FileLock::is_held(cache.lock_folder() + "/" + name))
      return make_error(ErrorCode::kUnavailable,
                        "{}: another process is fetching it; end that first", cache.repo());
  }
  return {};
}

// Removes one file; adds its bytes.
Status remove_file(const fs::path& path, std::int64_t& freed) {
  const std::int64_t bytes = bytes_on_disk(path);
  std::error_code error;
  fs::remove(path, error);
  if (error)
    return make_error(ErrorCode::kInvalidArgument, "cannot remove {}: {}", path.string(),
                      error.message());
  freed += bytes;
  return {};
}

Result<std::int64_t> remove_all(const RepoCache& cache) {
  std::int64_t freed = 0;
  for (const std::string& path : files_under(cache.folder()))
    QUIRE_TRY(remove_file(fs::path(cache.folder()) / path, freed));
  std::error_code error;
  fs::remove_all(cache.folder(), error);
  if (error)
    return make_error(ErrorCode::kInvalidArgument, "cannot remove {}: {}", cache.folder(),
                      error.message());
  fs::remove_all(cache.lock_folder(), error);
  return freed;
}

// The links of a quantization in every snapshot, and the blobs that no other link names.
Result<std::int64_t> remove_quant(const RepoCache& cache, const std::string& quant) {
  std::set<fs::path> blobs, still_used;
  std::int64_t freed = 0;
  const fs::path snapshots = fs::path(cache.folder()) / "snapshots";
  for (const std::string& commit : folders_in(snapshots)) {
    const std::vector<std::string> paths = files_under((snapshots / commit).string());
    const Result<std::vector<std::string>> files = gguf_files(paths, quant, cache.repo());
    for (const std::string& path : paths) {
      const fs::path link = snapshots / commit / path;
      std::error_code error;
      const fs::path blob = fs::weakly_canonical(link, error);
      if (!files || std::find(files->begin(), files->end(), path) == files->end()) {
        still_used.insert(blob);
        continue;
      }
      QUIRE_TRY(remove_file(link, freed));
      if (blob != link) blobs.insert(blob);
    }
  }
  if (blobs.empty() && freed == 0)
    return make_error(ErrorCode::kNotFound, "{}:{} is not in the cache", cache.repo(), quant);
  std::error_code error;
  const fs::path own_blobs = fs::weakly_canonical(fs::path(cache.folder()) / "blobs", error);
  for (const fs::path& blob : blobs) {
    if (!still_used.contains(blob) && blob.parent_path() == own_blobs)
      QUIRE_TRY(remove_file(blob, freed));
  }
  return freed;
}

}  // namespace

std::vector<CachedRevision> list_cache(const std::string& cache_dir) {
  std::vector<CachedRevision> out;
  for (const std::string& name : folders_in(cache_dir)) {
    if (const std::optional<std::string> repo = repo_of_folder(name)) {
      const RepoCache cache(cache_dir, *repo);
      if (fs::path(cache.folder()).filename() == name) add_repo(cache, out);
    }
  }
  return out;
}

Result<std::int64_t> remove_cached(const std::string& cache_dir, const ModelRef& ref) {
  const RepoCache cache(cache_dir, ref.repo);
  std::error_code ignored;
  if (!fs::is_directory(cache.folder(), ignored))
    return make_error(ErrorCode::kNotFound, "{} is not in the cache {}; `quire list` shows what is",
                      ref.repo, cache_dir);
  QUIRE_TRY(check_idle(cache));
  return ref.quant.empty() ? remove_all(cache) : remove_quant(cache, ref.quant);
}

}  // namespace quire
