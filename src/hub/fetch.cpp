#include "hub/fetch.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "base/log.h"
#include "hub/blob_download.h"
#include "hub/hub_client.h"
#include "hub/repo_cache.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// One fetch: the listing, the small files, then the weights.
class Fetch {
 public:
  Fetch(const ModelRef& ref, const HubSettings& settings, const RepoCache& cache, HubClient& client,
        RepoListing listing, const FolderCheck& check)
      : ref_(ref),
        settings_(settings),
        cache_(cache),
        client_(client),
        listing_(std::move(listing)),
        check_(check),
        progress_(ref.repo, settings.show_progress) {
    for (const RepoFile& file : listing_.files) paths_.push_back(file.path);
  }

  Result<std::string> run(FetchPart part) {
    QUIRE_ASSIGN(std::string path, part == FetchPart::kModel ? fetch_weights() : fetch_part(part));
    progress_.finish();
    if (!is_commit(settings_.revision))
      QUIRE_TRY(cache_.write_ref(settings_.revision, listing_.commit));
    return path;
  }

 private:
  Result<std::string> fetch_weights() {
    QUIRE_ASSIGN(const WeightFormat format, choose_format(paths_, ref_.quant, ref_.repo));
    return format == WeightFormat::kGguf ? fetch_gguf() : fetch_safetensors();
  }

  Result<std::string> fetch_part(FetchPart part) {
    const std::vector<std::string> files =
        part == FetchPart::kConfig ? config_files(paths_) : tokenizer_files(paths_);
    const char* const needed = part == FetchPart::kConfig ? "config.json" : "tokenizer.json";
    if (std::find(files.begin(), files.end(), needed) == files.end())
      return make_error(ErrorCode::kNotFound, "{}: the repository has no {}", ref_.repo, needed);
    QUIRE_TRY(get(files));
    return cache_.snapshot_path(listing_.commit);
  }

  Result<std::string> fetch_gguf() {
    QUIRE_ASSIGN(const std::vector<std::string> files, gguf_files(paths_, ref_.quant, ref_.repo));
    if (ref_.quant.empty())
      log_info("{}: takes {}; another by {}:QUANT", ref_.repo, files.front(), ref_.repo);
    QUIRE_TRY(get(files));
    return cache_.snapshot_path(listing_.commit) + "/" + files.front();
  }

  Result<std::string> fetch_safetensors() {
    const std::vector<std::string> small = small_files(paths_);
    if (std::find(small.begin(), small.end(), "config.json") == small.end())
      return make_error(ErrorCode::kNotFound,
                        "{}: has no config.json, which tells the model's shape", ref_.repo);
    QUIRE_TRY(get(small));
    const std::string folder = cache_.snapshot_path(listing_.commit);
    if (check_) QUIRE_TRY(check_(folder));
    std::string index;
    if (std::find(small.begin(), small.end(), kIndexFile) != small.end()) {
      std::ifstream in(fs::path(folder) / kIndexFile, std::ios::binary);
      index.assign(std::istreambuf_iterator<char>(in), {});
    }
    QUIRE_ASSIGN(const std::vector<std::string> weights,
                 safetensors_files(paths_, index, ref_.repo));
    QUIRE_TRY(get(weights));
    return folder;
  }

  // Those of the files that the snapshot lacks.
  Status get(const std::vector<std::string>& paths) {
    std::vector<RepoFile> missing;
    for (const std::string& path : paths) {
      if (cache_.has_file(listing_.commit, path)) continue;
      RepoFile file = *std::find_if(listing_.files.begin(), listing_.files.end(),
                                    [&](const RepoFile& f) { return f.path == path; });
      if (file.blob.empty() || file.size < 0) QUIRE_TRY(client_.fill_in(file, listing_.commit));
      missing.push_back(std::move(file));
    }
    return missing.empty() ? Status()
                           : download_files(settings_, cache_, listing_.commit, missing, progress_);
  }

  const ModelRef& ref_;
  const HubSettings& settings_;
  const RepoCache& cache_;
  HubClient& client_;
  const RepoListing listing_;
  const FolderCheck& check_;
  Progress progress_;
  std::vector<std::string> paths_;
};

std::string name_of(const ModelRef& ref) {
  return ref.quant.empty() ? ref.repo : ref.repo + ":" + ref.quant;
}

}  // namespace

Result<std::string> fetch_model(const ModelRef& ref, const HubSettings& settings, FetchPart part,
                                const FolderCheck& check) {
  const RepoCache cache(settings.cache_dir, ref.repo);
  const bool is_pinned = is_commit(settings.revision);
  const std::optional<std::string> commit =
      is_pinned ? settings.revision : cache.read_ref(settings.revision);
  std::optional<std::string> cached;
  if (commit && part == FetchPart::kModel)
    cached = cache.find_model(*commit, ref.quant, is_pinned && !settings.is_offline);
  else if (commit)
    cached = cache.find_part(*commit, part == FetchPart::kConfig);
  // Weights are linked last, so a model that is found is whole; of a part the hub is asked.
  const bool is_whole = is_pinned && part == FetchPart::kModel;
  if (cached && (is_whole || settings.is_offline)) {
    touch_last_use(*cached);
    return *cached;
  }
  if (settings.is_offline)
    return make_error(ErrorCode::kUnavailable,
                      "{}: HF_HUB_OFFLINE is set, and revision \"{}\" is not (or not wholly) in "
                      "{}; unset it, or copy the model there",
                      name_of(ref), settings.revision, settings.cache_dir);
  HubClient client(settings, ref.repo);
  Result<RepoListing> listing = client.list(cached ? 1 : kAttempts);
  if (!listing) {
    if (!cached || listing.error().code != ErrorCode::kUnavailable)
      return tl::unexpected(std::move(listing).error());
    log_warning("{}; taking what the cache has of revision \"{}\" ({})", listing.error().message,
                settings.revision, commit->substr(0, 12));
    touch_last_use(*cached);
    return *cached;
  }
  QUIRE_ASSIGN(std::string path,
               Fetch(ref, settings, cache, client, *std::move(listing), check).run(part));
  touch_last_use(path);
  return path;
}

}  // namespace quire
