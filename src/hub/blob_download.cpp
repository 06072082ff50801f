#include "hub/blob_download.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/check.h"
#include "hub/file_hash.h"
#include "hub/file_lock.h"
#include "hub/hub_client.h"
#include "hub/model_ref.h"
#include "hub/partial_file.h"
#include "hub/range_sink.h"
#include "hub/retry.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kRangeBytes = 64 << 20;  // parts of a large file that are fetched at once
constexpr std::int64_t kMaxRanges = 1024;       // of one file: larger parts from 64 GiB on
constexpr int kMaxConnections = 8;

// One blob on its way. The main thread makes it; then each range belongs to one worker, and the
// worker that ends the last range checks and installs the file.
struct Blob {
  Blob(RepoFile f, std::vector<std::string> l, FileLock held)
      : file(std::move(f)), links(std::move(l)), lock(std::move(held)) {}
  RepoFile file;
  std::vector<std::string> links;  // paths in the snapshot
  FileLock lock;
  std::optional<PartialFile> partial;
  std::atomic<int> ranges_left = 0;
};

struct Task {
  Blob* blob;
  int range;
};

class Download {
 public:
  Download(const HubSettings& settings, const RepoCache& cache, const std::string& commit,
           Progress& progress)
      : settings_(settings), cache_(cache), commit_(commit), progress_(progress) {}

  Status add(const RepoFile& file, std::vector<std::string> links);
  Status run();

 private:
  Status check_space() const;
  void work();
  Status fetch_range(HubClient& client, const Task& task);
  Status finish(Blob& blob);
  std::optional<Task> next_task();
  void fail(Error error);

  const HubSettings& settings_;
  const RepoCache& cache_;
  const std::string& commit_;
  Progress& progress_;
  std::vector<std::unique_ptr<Blob>> blobs_;
  std::vector<Task> tasks_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::size_t next_ = 0;        // of tasks_; guarded by mutex_
  std::optional<Error> error_;  // the first; guarded by mutex_
};

Status Download::add(const RepoFile& file, std::vector<std::string> links) {
  QUIRE_ASSIGN(FileLock lock,
               FileLock::wait_for(cache_.lock_path(file.blob), cache_.repo() + ": " + file.path));
  const std::string path = cache_.blob_path(file.blob);
  std::error_code error;
  if (fs::is_regular_file(path, error) &&
      static_cast<std::int64_t>(fs::file_size(path, error)) == file.size) {
    for (const std::string& link : links) QUIRE_TRY(cache_.link_file(commit_, link, file.blob));
    return {};
  }
  auto blob = std::make_unique<Blob>(file, std::move(links), std::move(lock));
  QUIRE_ASSIGN(PartialFile partial,
               PartialFile::open(path, file.size, std::max(kRangeBytes, file.size / kMaxRanges + 1),
                                 cache_.repo() + ": " + file.path));
  progress_.expect(file.size, partial.done_bytes());
  blob->partial.emplace(std::move(partial));
  for (int i = 0; i < blob->partial->num_ranges(); ++i) {
    const PartialFile::Range& range = blob->partial->range(i);
    if (range.done == range.end - range.begin) continue;
    tasks_.push_back({blob.get(), i});
    ++blob->ranges_left;
  }
  if (blob->ranges_left == 0) return finish(*blob);
  blobs_.push_back(std::move(blob));
  return {};
}

Status Download::check_space() const {
  std::int64_t needed = 0;
  for (const std::unique_ptr<Blob>& blob : blobs_)
    needed += blob->file.size - blob->partial->done_bytes();
  const std::string folder = fs::path(cache_.blob_path("x")).parent_path().string();
  if (const std::int64_t free = free_bytes(folder); needed > free)
    return make_error(ErrorCode::kInternal,
                      "{}: the disk is full: {} more are needed in {}, {} are free; make room, or "
                      "choose another disk with "
                      "--download-dir",
                      cache_.repo(), format_bytes(needed), folder, format_bytes(free));
  return {};
}

std::optional<Task> Download::next_task() {
  std::lock_guard lock(mutex_);
  if (next_ == tasks_.size() || stop_.stop_requested()) return std::nullopt;
  return tasks_[next_++];
}

void Download::fail(Error error) {
  stop_.request_stop();
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

Status Download::run() {
  QUIRE_TRY(check_space());
  std::vector<std::thread> workers;
  const int count = std::min<int>(kMaxConnections, static_cast<int>(tasks_.size()));
  workers.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) workers.emplace_back([this] { work(); });
  for (std::thread& worker : workers) worker.join();
  if (error_) return tl::unexpected(*error_);
  return {};
}

void Download::work() {
  HubClient client(settings_, cache_.repo(), stop_.get_token());
  while (const std::optional<Task> task = next_task()) {
    Status status = fetch_range(client, *task);
    if (status && --task->blob->ranges_left == 0) status = finish(*task->blob);
    if (!status) return fail(std::move(status).error());
  }
}

// Asks until the range is whole.
Status Download::fetch_range(HubClient& client, const Task& task) {
  const RepoFile& file = task.blob->file;
  const std::string what = cache_.repo() + ": " + file.path;
  PartialFile& partial = *task.blob->partial;
  const PartialFile::Range& range = partial.range(task.range);
  const std::stop_token stop = stop_.get_token();
  RangeSink sink(partial, task.range, what, progress_, stop);
  const BodySink body = sink.body_sink();
  Retry retry(kAttempts, stop);
  while (range.done < range.end - range.begin) {
    const std::int64_t before = range.done;
    QUIRE_ASSIGN(HttpReply reply,
                 client.get(file, commit_, range.begin + range.done, range.end, body));
    if (range.done == range.end - range.begin) break;
    if (stop.stop_requested()) return partial.record(task.range);
    const bool is_success = reply.status == 200 || reply.status == 206;
    if (is_success && reply.failure.empty()) reply.failure = "the answer ended early";
    if (is_temporary(reply) && retry.again(reply, what, range.done > before)) continue;
    QUIRE_TRY(partial.record(task.range));
    return tl::unexpected(client.error_of(reply, file.path));
  }
  return {};
}

Status Download::finish(Blob& blob) {
  Status good = check_hash(blob.partial->path(), blob.file, cache_.repo());
  if (!good) {
    blob.partial->discard();
    return good;
  }
  QUIRE_TRY(blob.partial->install(cache_.blob_path(blob.file.blob)));
  for (const std::string& link : blob.links)
    QUIRE_TRY(cache_.link_file(commit_, link, blob.file.blob));
  blob.partial.reset();
  return {};
}

}  // namespace

Status check_hash(const std::string& path, const RepoFile& file, const std::string& repo) {
  const bool is_sha256 = is_hex(file.blob, 64);
  if (!is_sha256 && !is_hex(file.blob, 40)) return {};
  QUIRE_ASSIGN(const std::string hash,
               hash_file(path, is_sha256 ? HashKind::kSha256 : HashKind::kGitBlob));
  if (hash == file.blob) return {};
  return make_error(
      ErrorCode::kBadFile,
      "{}: {} came damaged: its {} is {}, the hub says {}; it was removed, run it again", repo,
      file.path, is_sha256 ? "SHA-256" : "git SHA-1", hash, file.blob);
}

Status download_files(const HubSettings& settings, const RepoCache& cache,
                      const std::string& commit, const std::vector<RepoFile>& files,
                      Progress& progress) {
  // In the order of blob names, so that two processes never wait for each other's locks in a
  // circle.
  std::map<std::string, std::vector<const RepoFile*>> by_blob;
  for (const RepoFile& file : files) by_blob[file.blob].push_back(&file);
  QUIRE_TRY(make_cache_folder(fs::path(cache.blob_path("x")).parent_path().string()));
  Download download(settings, cache, commit, progress);
  for (const auto& [blob, same] : by_blob) {
    std::vector<std::string> links;
    for (const RepoFile* file : same) links.push_back(file->path);
    QUIRE_TRY(download.add(*same.front(), std::move(links)));
  }
  return download.run();
}

}  // namespace quire
