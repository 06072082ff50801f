// Hashes of files as the hub names them: SHA-256 of large files, git's blob id (SHA-1) of the
// others.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace quire {

enum class HashKind { kSha256, kGitBlob };

// Lower-case hexadecimal digits of the file's hash.
Result<std::string> hash_file(const std::string& path, HashKind kind);

}  // namespace quire
