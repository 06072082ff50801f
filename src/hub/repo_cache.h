// One repository's folder in the cache, laid out as huggingface_hub does, so that both share it:
//
//   CACHE/models--ORG--NAME/blobs/HASH            content, named by its hash
//                          /refs/main             text: the commit that the branch was at
//                          /snapshots/COMMIT/...  relative symbolic links to blobs
//   CACHE/.locks/models--ORG--NAME/HASH.lock      held by who fetches the blob
//
// A link is made when its blob is whole, and the links of weights last: a snapshot that has its
// weights has everything. Any thread may call the const functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

class RepoCache {
 public:
  RepoCache(std::string cache_dir, std::string repo);

  const std::string& repo() const { return repo_; }
  const std::string& folder() const { return folder_; }
  std::string blob_path(std::string_view blob) const;
  std::string lock_path(std::string_view blob) const;
  std::string lock_folder() const;
  std::string snapshot_path(std::string_view commit) const;

  // The commit that a branch or tag was at when it was last asked for; nullopt: never.
  std::optional<std::string> read_ref(std::string_view revision) const;
  Status write_ref(std::string_view revision, std::string_view commit) const;

  // True when the snapshot's file is there, its blob too.
  bool has_file(std::string_view commit, std::string_view path) const;
  Status link_file(std::string_view commit, std::string_view path, std::string_view blob) const;

  // What a snapshot already serves, judged by its files alone: the folder for safetensors, the
  // (first) file for GGUF. exact: without a quantization only the default one (Q4_K_M) will do.
  std::optional<std::string> find_model(std::string_view commit, std::string_view quant,
                                        bool exact) const;

  // The snapshot's folder, when it has a tokenizer, and a configuration where that is wanted.
  std::optional<std::string> find_part(std::string_view commit, bool needs_config) const;

 private:
  std::string repo_, cache_dir_, folder_;
};

// "models--ORG--NAME", or "models--NAME" of one of the hub's own.
std::string repo_folder_name(std::string_view repo);
// "ORG/NAME" of a folder's name; nullopt: not a model's.
std::optional<std::string> repo_of_folder(std::string_view folder_name);
// Relative paths of the files and links under a folder, sorted; empty when it is not there.
std::vector<std::string> files_under(const std::string& folder);
// Creates the folder and its parents; the error says that the cache is not writable and why.
Status make_cache_folder(const std::string& folder);
// Marks a model's files as used now, for `quire list`; failures do not matter.
void touch_last_use(const std::string& path);

}  // namespace quire
