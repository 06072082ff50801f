// The parts of a split GGUF model: "NAME-00001-of-00003.gguf" and its sisters in the same folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "weights/gguf_file.h"

namespace quire {

struct GgufPart {
  std::string stem;  // the path before "-00001-of-00003.gguf"
  std::int64_t number = 0, count = 0;
};
// What the file's name says; nullopt: not the name of a part.
std::optional<GgufPart> parse_gguf_part(const std::string& path);

// The paths of all `count` parts, of which `path` is one, first to last. An error names a part that
// is missing.
Result<std::vector<std::string>> gguf_part_paths(const std::string& path, std::int64_t count);

// That the file says itself that it is part number `index` (from 0) of `count`.
Status check_gguf_part(const GgufFile& part, std::size_t index, std::int64_t count);

}  // namespace quire
