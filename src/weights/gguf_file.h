// Reads GGUF model files (versions 2 and 3, little-endian) by mapping them into memory. Every
// count, offset, type, alignment and dimension product is checked: a malformed file gives one clear
// error. Source: the GGUF specification (ggml/docs/gguf.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tensor/tensor_view.h"
#include "weights/mapped_file.h"

namespace quire {

struct GgufArray;
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;
// An array of metadata: one of these is filled. (Arrays of arrays are refused.)
struct GgufArray {
  std::vector<std::int64_t> ints;  // every integer and bool type
  std::vector<double> floats;
  std::vector<std::string> strings;
};

class GgufFile {
 public:
  // One file, or all parts of a split model ("...-00001-of-00003.gguf"), of which any may be named:
  // the first part's metadata, every part's tensors.
  static Result<GgufFile> open(const std::string& path);
  // For tests and fuzzing: parses bytes that outlive the result.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name);

  const GgufValue* find(std::string_view key) const;
  // Typed look-ups; nullopt when absent or of another type. Integers of any width convert.
  std::optional<std::int64_t> get_int(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  std::optional<std::string_view> get_string(std::string_view key) const;
  const GgufArray* get_array(std::string_view key) const;

  // Shapes are in row-major order: GGUF's dimensions reversed.
  const std::unordered_map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::vector<std::string>& tensor_names() const { return tensor_names_; }  // file order
  const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  std::uint32_t version() const { return version_; }
  const std::string& name() const { return name_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  // Takes another part's tensors in; a name that is here already is an error.
  Status add_part(GgufFile part);
  // Tells the kernel that the pages of this tensor are no longer needed (after packing).
  void release_pages(const TensorView& view) const;

 private:
  friend class GgufParser;
  static Result<GgufFile> open_one(const std::string& path);
  std::vector<std::shared_ptr<MappedFile>> files_;
  std::string name_;
  std::uint32_t version_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::unordered_map<std::string, std::size_t> metadata_index_;
  std::unordered_map<std::string, TensorView> tensors_;
  std::vector<std::string> tensor_names_;
};

}  // namespace quire
