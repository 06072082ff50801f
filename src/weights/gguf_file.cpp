#include "weights/gguf_file.h"

#include <limits>

#include "weights/gguf_parser.h"

namespace quire {

Result<GgufFile> GgufFile::open(const std::string& path) {
  QUIRE_ASSIGN(std::shared_ptr<MappedFile> mapped, MappedFile::open(path));
  QUIRE_ASSIGN(GgufFile file, parse(mapped->bytes(), path));
  file.file_ = std::move(mapped);
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  return GgufParser(bytes, std::move(name)).run();
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_index_.find(std::string(key));
  return found == metadata_index_.end() ? nullptr : &metadata_[found->second].second;
}

std::optional<std::int64_t> GgufFile::get_int(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* i = std::get_if<std::int64_t>(value)) return *i;
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (const auto* u = std::get_if<std::uint64_t>(value); u != nullptr && *u <= kMax) {
    return static_cast<std::int64_t>(*u);
  }
  return std::nullopt;
}

std::optional<double> GgufFile::get_float(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const auto i = get_int(key)) return static_cast<double>(*i);
  return std::nullopt;
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  const bool* b = value == nullptr ? nullptr : std::get_if<bool>(value);
  return b == nullptr ? std::nullopt : std::optional<bool>(*b);
}

std::optional<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* s = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return s == nullptr ? std::nullopt : std::optional<std::string_view>(*s);
}

const GgufArray* GgufFile::get_array(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? nullptr : std::get_if<GgufArray>(value);
}

void GgufFile::release_pages(const TensorView& view) const {
  if (file_ != nullptr && !view.empty()) {
    file_->release(view.data, static_cast<std::size_t>(view.bytes()));
  }
}

}  // namespace quire
