// Fetches blobs of one repository into the cache: several files, and several ranges of a large one,
// at once; resumed, checked by size and hash, then linked into the snapshot.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hub/hub_settings.h"
#include "hub/progress.h"
#include "hub/repo_cache.h"
#include "hub/repo_listing.h"

namespace quire {

// Every file needs its size and blob name. Files of the same blob are fetched once. Returns when
// all are in the cache, or at the first error (what is there by then is kept).
Status download_files(const HubSettings& settings, const RepoCache& cache,
                      const std::string& commit, const std::vector<RepoFile>& files,
                      Progress& progress);

// Checks a whole file against its blob name (SHA-256 or git's SHA-1; other names tell no hash).
Status check_hash(const std::string& path, const RepoFile& file, const std::string& repo);

}  // namespace quire
