// Small helpers shared by the file readers: overflow-checked arithmetic, names made safe for
// one-line messages, and whole-file reading with a limit. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// *out = a * b; false (and *out untouched) when the product does not fit.
inline bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t* out) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return false;
  *out = product;
  return true;
}

// The text with control characters and non-ASCII bytes escaped and cut at 80 bytes: names come from
// untrusted files and must not break an error message's single line.
std::string printable(std::string_view text);

// Whether the path can be looked at; never throws (a name may be too long, a folder closed to us).
bool path_exists(const std::filesystem::path& path);

// The names in a folder that end so, sorted; an error when it cannot be listed.
Result<std::vector<std::string>> names_ending_in(const std::filesystem::path& folder,
                                                 std::span<const std::string_view> endings);

// The whole file, at most max_bytes of it (more is an error).
Result<std::string> read_text_file(const std::string& path, std::uint64_t max_bytes);
// The same, or an empty string when it does not exist.
Result<std::string> read_if_present(const std::filesystem::path& path, std::uint64_t max_bytes);
inline constexpr std::uint64_t kMaxConfigBytes = 16'000'000;  // of config.json and its like

}  // namespace quire
