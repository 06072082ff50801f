#include "weights/checked.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace quire {

std::string printable(std::string_view text) {
  constexpr std::size_t kMaxBytes = 80;
  std::string out;
  for (char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > kMaxBytes) out += "...";
  return out;
}

bool path_exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Result<std::string> read_if_present(const std::filesystem::path& path, std::uint64_t max_bytes) {
  if (!path_exists(path)) return std::string();
  return read_text_file(path.string(), max_bytes);
}

Result<std::vector<std::string>> names_ending_in(const std::filesystem::path& folder,
                                                 std::span<const std::string_view> endings) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    const bool fits = std::any_of(endings.begin(), endings.end(),
                                  [&](std::string_view ending) { return name.ends_with(ending); });
    if (fits) names.push_back(std::move(name));
  }
  if (error) {
    return make_error(ErrorCode::kBadFile, "{}: cannot list the folder: {}", folder.string(),
                      error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> read_text_file(const std::string& path, std::uint64_t max_bytes) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) return make_error(ErrorCode::kBadFile, "{}: cannot read: {}", path, error.message());
  if (size > max_bytes) {
    return make_error(ErrorCode::kBadFile, "{}: {} bytes, the limit for this file is {}", path,
                      size, max_bytes);
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return make_error(ErrorCode::kBadFile, "{}: cannot open: {}", path, std::strerror(errno));
  }
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (static_cast<std::uint64_t>(in.gcount()) != size) {
    return make_error(ErrorCode::kBadFile, "{}: read {} of {} bytes; is it being written?", path,
                      in.gcount(), size);
  }
  return text;
}

}  // namespace quire
