// One pass over the bytes of a GGUF file; lives for the length of GgufFile::parse. Trusts nothing:
// counts are checked against the bytes that are left before anything is reserved, so memory stays
// within a small multiple of the file's size.
//
// Layout (little-endian): magic, version u32, tensor count u64, metadata count u64; metadata
// entries (key, type u32, value); tensor entries (name, rank u32, dims u64[rank], type u32, offset
// u64); padding to general.alignment; tensor data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/gguf_file.h"

namespace quire {

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, std::string name);
  Result<GgufFile> run();

 private:
  struct TensorEntry {
    std::string name;
    DType dtype = DType::kF32;
    Shape shape;
    std::uint64_t offset = 0;  // from the start of the data section
    std::uint64_t bytes = 0;
  };

  Status read_header();
  Status read_metadata();
  Status read_alignment();
  Status read_tensor_entries();
  Result<TensorEntry> read_tensor_entry();
  Status read_dims(std::string_view name, std::vector<std::uint64_t>* dims);
  Status place_tensors();

  std::uint64_t left() const { return bytes_.size() - pos_; }
  template <class T>
  Status read(T* out, std::string_view what);
  Status read_string(std::string* out, std::uint64_t max_bytes, std::string_view what);
  Result<GgufValue> read_value(std::uint32_t type, std::string_view key);
  Result<GgufValue> read_array(std::string_view key);
  Status read_array_element(std::uint32_t type, std::string_view key, GgufArray* array);

  std::span<const std::byte> bytes_;
  std::uint64_t pos_ = 0;
  std::uint64_t num_tensors_ = 0, num_metadata_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<TensorEntry> entries_;
  GgufFile file_;
};

}  // namespace quire
