#include "weights/gguf_file.h"

#include <limits>

#include "weights/checked.h"
#include "weights/gguf_parser.h"
#include "weights/gguf_split.h"

namespace quire {

Result<GgufFile> GgufFile::open_one(const std::string& path) {
  QUIRE_ASSIGN(std::shared_ptr<MappedFile> mapped, MappedFile::open(path));
  QUIRE_ASSIGN(GgufFile file, parse(mapped->bytes(), path));
  file.files_.push_back(std::move(mapped));
  return file;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  QUIRE_ASSIGN(GgufFile file, open_one(path));
  const std::int64_t count = file.get_int("split.count").value_or(1);
  if (count <= 1) return file;
  QUIRE_ASSIGN(const std::vector<std::string> paths, gguf_part_paths(path, count));
  QUIRE_ASSIGN(GgufFile whole, open_one(paths[0]));
  const std::int64_t tensors = whole.get_int("split.tensors.count").value_or(-1);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (i == 0) {
      QUIRE_TRY(check_gguf_part(whole, i, count));
      continue;
    }
    QUIRE_ASSIGN(GgufFile part, open_one(paths[i]));
    QUIRE_TRY(check_gguf_part(part, i, count));
    QUIRE_TRY(whole.add_part(std::move(part)));
  }
  const auto found = static_cast<std::int64_t>(whole.tensor_names_.size());
  if (tensors >= 0 && tensors != found) {
    return make_error(ErrorCode::kBadFile,
                      "{}: the {} parts hold {} tensors, split.tensors.count is {}; parts of "
                      "different models are mixed, or one is damaged",
                      paths[0], count, found, tensors);
  }
  return whole;
}

Status GgufFile::add_part(GgufFile part) {
  for (std::string& name : part.tensor_names_) {
    if (!tensors_.emplace(name, part.tensors_.at(name)).second) {
      return make_error(ErrorCode::kBadFile, "{}: tensor \"{}\" is in {} already", part.name_,
                        printable(name), name_);
    }
    tensor_names_.push_back(std::move(name));
  }
  file_bytes_ += part.file_bytes_;
  files_.insert(files_.end(), part.files_.begin(), part.files_.end());
  return {};
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
  if (view.empty()) return;
  for (const auto& file : files_) {
    const std::byte* begin = file->bytes().data();
    if (view.data < begin || view.data >= begin + file->bytes().size()) continue;
    file->release(view.data, static_cast<std::size_t>(view.bytes()));
  }
}

}  // namespace quire
