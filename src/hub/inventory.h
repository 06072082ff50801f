// What the cache holds, for `quire list`, and its removal, for `quire rm`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/model_ref.h"

namespace quire {

struct CachedRevision {
  std::string repo;           // "ORG/NAME"
  std::string commit;         // empty: only parts of an interrupted download are there
  std::string refs;           // "main": the branches and tags that are at it, comma-separated
  std::string weights = "-";  // "safetensors", or GGUF quantizations
  std::int64_t size = 0;      // bytes of its files; a file that two revisions share counts in both
  std::int64_t partial = 0;   // bytes of interrupted downloads, told once per repository
  std::int64_t last_used_s = 0;  // seconds since 1970
};
// Sorted by repository; empty when there is no cache.
std::vector<CachedRevision> list_cache(const std::string& cache_dir);

// Removes a repository, or with a quantization its GGUF files alone; gives the bytes that are free
// now. kNotFound: not in the cache; kUnavailable: another process is fetching it.
Result<std::int64_t> remove_cached(const std::string& cache_dir, const ModelRef& ref);

}  // namespace quire
