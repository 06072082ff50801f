// What a repository holds, as the hub's API tells it, and which of its files a model needs. Pure
// functions over text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

struct RepoFile {
  std::string path;        // relative; checked by is_safe_file_name
  std::int64_t size = -1;  // bytes; -1: not told
  std::string blob;        // SHA-256 of large files, git blob id of others; empty: not told
};

struct RepoListing {
  std::string commit;
  std::vector<RepoFile> files;
};

// The answer of /api/models/ORG/NAME/revision/REV. Names that would lead out of the cache's folder
// make the whole listing an error.
Result<RepoListing> parse_listing(std::string_view json, std::string_view repo);

enum class WeightFormat { kSafetensors, kGguf };

// Which format is loaded: GGUF when a quantization is named or nothing else is there. Repositories
// with pickles only, adapters only, or no weights are errors that say so.
Result<WeightFormat> choose_format(const std::vector<std::string>& paths, std::string_view quant,
                                   std::string_view repo);
// config.json, tokenizer and template files, and the index of sharded weights.
std::vector<std::string> small_files(const std::vector<std::string>& paths);
// The same without the index, and without what only the model needs.
std::vector<std::string> config_files(const std::vector<std::string>& paths);
std::vector<std::string> tokenizer_files(const std::vector<std::string>& paths);
// The safetensors files: those that the index names (index_json empty: there is none).
Result<std::vector<std::string>> safetensors_files(const std::vector<std::string>& paths,
                                                   std::string_view index_json,
                                                   std::string_view repo);
// The file of this quantization, all its splits in order. quant empty: Q4_K_M, else the first.
Result<std::vector<std::string>> gguf_files(const std::vector<std::string>& paths,
                                            std::string_view quant, std::string_view repo);
// "Q4_K_M" of "model-Q4_K_M-00001-of-00002.gguf"; the file's stem when it names no quantization.
std::string gguf_label(std::string_view path);

inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";

}  // namespace quire
