// Reads safetensors: one file, or the shards that model.safetensors.index.json names. Mapped,
// checked: header size, JSON, offsets inside the file and not overlapping, byte counts equal dtype
// x shape. Source: the safetensors format description.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tensor/tensor_view.h"
#include "weights/mapped_file.h"

namespace quire {

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  // A Hugging Face folder: model.safetensors.index.json (its shards, each tensor checked to be
  // where the index says; a missing shard is refused), else model.safetensors, else the only
  // .safetensors file there is.
  static Result<SafetensorsFile> open_folder(const std::string& folder);
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& name);

  const std::unordered_map<std::string, TensorView>& tensors() const { return tensors_; }
  void release_pages(const TensorView& view) const;
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  std::vector<std::shared_ptr<MappedFile>> files_;
  std::unordered_map<std::string, TensorView> tensors_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace quire
