// Names of the hub: ORG/NAME, ORG/NAME:QUANT (NAME alone for a few old models, as gpt2), revisions,
// and file names inside a repository. Pure functions over text; what they accept cannot lead a path
// out of the cache's folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

struct ModelRef {
  std::string repo;   // "ORG/NAME", or "NAME"
  std::string quant;  // "Q4_K_M", or a .gguf's name; empty: the repository's weights
};

// [ORG/]NAME[:QUANT], or nullopt for text that looks like a path or is no valid name.
std::optional<ModelRef> parse_model_ref(std::string_view text);

// The hub's own rule: letters, digits, '-', '_', '.'; no "--" or ".."; no '-' or '.' at either end.
bool is_repo_part(std::string_view text);
// 40 lower-case hexadecimal digits: a commit, which never moves.
bool is_commit(std::string_view text);
// A branch, tag or commit that is safe as a relative path under refs/.
bool is_revision(std::string_view text);
// A relative path of plain components: none empty, ".", "..", or with a backslash or control
// character, none longer than a file system takes.
bool is_safe_file_name(std::string_view path);
// The name of a blob from an ETag header or the API: without W/ and quotes; nullopt when it could
// be no plain file name.
std::optional<std::string> blob_name(std::string_view etag);

bool is_hex(std::string_view text, std::size_t digits);
std::string to_lower(std::string_view text);

}  // namespace quire
