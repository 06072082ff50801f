#include "weights/gguf_split.h"

#include <charconv>

#include "weights/checked.h"

namespace quire {
namespace {

constexpr std::int64_t kMaxParts = 10'000;

std::string part_path(const GgufPart& part, std::int64_t number) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", part.stem, number, part.count);
}

// Five digits; -1: something else.
std::int64_t five_digits(std::string_view text) {
  std::int64_t number = -1;
  if (text.size() != 5) return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

}  // namespace

std::optional<GgufPart> parse_gguf_part(const std::string& path) {
  constexpr std::string_view kPattern = "-00001-of-00003.gguf";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const std::size_t begin = path.size() - kPattern.size();
  const std::string_view tail = std::string_view(path).substr(begin);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !tail.ends_with(".gguf")) {
    return std::nullopt;
  }
  GgufPart part{path.substr(0, begin), five_digits(tail.substr(1, 5)),
                five_digits(tail.substr(10, 5))};
  if (part.number < 1 || part.count < part.number) return std::nullopt;
  return part;
}

Result<std::vector<std::string>> gguf_part_paths(const std::string& path, std::int64_t count) {
  if (count > kMaxParts) {
    return make_error(ErrorCode::kBadFile, "{}: split into {} parts; at most {} are supported",
                      path, count, kMaxParts);
  }
  const std::optional<GgufPart> part = parse_gguf_part(path);
  if (!part || part->count != count) {
    return make_error(ErrorCode::kBadFile,
                      "{}: one of {} parts of a split model, which must be named "
                      "NAME-00001-of-{:05}.gguf and so on, to find the others (parts that were "
                      "joined into one file are no model: name the first part itself)",
                      path, count, count);
  }
  std::vector<std::string> paths;
  for (std::int64_t i = 1; i <= count; ++i) {
    paths.push_back(part_path(*part, i));
    if (!path_exists(paths.back())) {
      return make_error(ErrorCode::kNotFound,
                        "{}: part {} of {} of the split model is missing; all parts must lie in "
                        "one folder",
                        paths.back(), i, count);
    }
  }
  return paths;
}

Status check_gguf_part(const GgufFile& part, std::size_t index, std::int64_t count) {
  const std::int64_t said_count = part.get_int("split.count").value_or(-1);
  const std::int64_t said_index = part.get_int("split.no").value_or(-1);
  if (said_count == count && said_index == static_cast<std::int64_t>(index)) return {};
  return make_error(ErrorCode::kBadFile,
                    "{}: its metadata says part {} of {}, its name part {} of {}; files of "
                    "different models are mixed or renamed",
                    part.name(), said_index + 1, said_count, index + 1, count);
}

}  // namespace quire
