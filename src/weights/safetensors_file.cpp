#include "weights/safetensors_file.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "base/check.h"
#include "weights/checked.h"
#include "weights/json_fields.h"

namespace quire {
namespace json = boost::json;

namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::uint64_t kMaxIndexBytes = 256'000'000;
constexpr const char* kIndexName = "model.safetensors.index.json";

struct NamedDType {
  std::string_view name;
  DType dtype;
};
constexpr NamedDType kDTypes[] = {
    {"F32", DType::kF32},   {"F16", DType::kF16},        {"BF16", DType::kBF16},
    {"F64", DType::kF64},   {"I8", DType::kI8},          {"I16", DType::kI16},
    {"I32", DType::kI32},   {"I64", DType::kI64},        {"U8", DType::kU8},
    {"BOOL", DType::kBool}, {"F8_E4M3", DType::kF8E4M3}, {"F8_E5M2", DType::kF8E5M2},
};

// Where a tensor's bytes lie in the data section.
struct Extent {
  std::uint64_t begin = 0, end = 0;
  std::string_view tensor;
};

std::optional<std::uint64_t> as_unsigned(const json::value& value) {
  if (value.is_int64() && value.get_int64() >= 0) {
    return static_cast<std::uint64_t>(value.get_int64());
  }
  return std::nullopt;
}

// One entry of a header: {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}.
class EntryReader {
 public:
  EntryReader(const std::string& file, std::string_view tensor, const json::value& value)
      : file_(file), tensor_(tensor), value_(value) {}

  // data: the data section. Fills view and extent.
  Status read(std::span<const std::byte> data, TensorView* view, Extent* extent) const {
    if (!value_.is_object()) return bad("its header entry is not an object");
    const json::object& entry = value_.get_object();
    QUIRE_TRY(read_dtype(entry, &view->dtype));
    std::uint64_t bytes = 0;
    QUIRE_TRY(read_shape(entry, view, &bytes));
    QUIRE_TRY(read_offsets(entry, extent));
    if (extent->begin > extent->end || extent->end > data.size()) {
      return bad(
          "its bytes {} to {} lie outside the data of {} bytes: the file is truncated or "
          "damaged; download it again",
          extent->begin, extent->end, data.size());
    }
    if (extent->end - extent->begin != bytes) {
      return bad("its offsets span {} bytes, {} {} needs {}", extent->end - extent->begin,
                 dtype_name(view->dtype), view->shape.to_string(), bytes);
    }
    extent->tensor = tensor_;
    view->data = data.data() + extent->begin;
    const auto align = static_cast<std::uintptr_t>(dtype_info(view->dtype).block_bytes);
    if (reinterpret_cast<std::uintptr_t>(view->data) % align != 0) {
      return bad("its data is misaligned for {}: save the file again with a current safetensors",
                 dtype_name(view->dtype));
    }
    return {};
  }

 private:
  template <class... Args>
  tl::unexpected<Error> bad(fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(ErrorCode::kBadFile, "{}: tensor \"{}\": {}", file_, printable(tensor_),
                      fmt::format(format, std::forward<Args>(args)...));
  }

  Status read_dtype(const json::object& entry, DType* dtype) const {
    const json::value* value = entry.if_contains("dtype");
    if (value == nullptr || !value->is_string()) return bad("it has no dtype");
    const std::string_view name(value->get_string().data(), value->get_string().size());
    for (const NamedDType& known : kDTypes) {
      if (known.name != name) continue;
      *dtype = known.dtype;
      return {};
    }
    return bad("dtype \"{}\" is not supported", printable(name));
  }

  Status read_shape(const json::object& entry, TensorView* view, std::uint64_t* bytes) const {
    const json::value* value = entry.if_contains("shape");
    if (value == nullptr || !value->is_array()) return bad("it has no shape");
    const json::array& dims = value->get_array();
    if (dims.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
      return bad("it has {} dimensions, the limit is {}", dims.size(), Shape::kMaxRank);
    }
    *bytes = static_cast<std::uint64_t>(dtype_info(view->dtype).block_bytes);
    for (const json::value& item : dims) {
      const auto dim = as_unsigned(item);
      if (!dim || *dim == 0) return bad("a dimension is not a positive integer");
      constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
      if (!checked_multiply(*bytes, *dim, bytes) || *bytes > kMax) {
        return bad("the product of its dimensions overflows at size {}", *dim);
      }
      view->shape.push_back(static_cast<std::int64_t>(*dim));
    }
    if (dims.empty()) view->shape.push_back(1);  // a scalar is a vector of one
    return {};
  }

  Status read_offsets(const json::object& entry, Extent* extent) const {
    const json::value* value = entry.if_contains("data_offsets");
    if (value == nullptr || !value->is_array() || value->get_array().size() != 2) {
      return bad("it has no data_offsets of two numbers");
    }
    const auto begin = as_unsigned(value->get_array()[0]), end = as_unsigned(value->get_array()[1]);
    if (!begin || !end) return bad("its data_offsets are not two non-negative integers");
    extent->begin = *begin;
    extent->end = *end;
    return {};
  }

  const std::string& file_;
  std::string_view tensor_;
  const json::value& value_;
};

// Every byte of the data section belongs to exactly one tensor.
Status check_coverage(const std::string& file, std::vector<Extent> extents, std::uint64_t size) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::uint64_t covered = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != covered) {
      return make_error(ErrorCode::kBadFile,
                        "{}: tensor \"{}\" begins at byte {} of the data, but {} "
                        "the one before it ends at {}",
                        file, printable(extent.tensor), extent.begin,
                        extent.begin < covered ? "they overlap:" : "there is a gap:", covered);
    }
    covered = extent.end;
  }
  if (covered != size) {
    return make_error(ErrorCode::kBadFile,
                      "{}: the tensors cover {} bytes of data, the file has {}", file, covered,
                      size);
  }
  return {};
}

// The length of the JSON header behind the first 8 bytes.
Result<std::uint64_t> read_header_bytes(std::span<const std::byte> bytes, const std::string& name) {
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes) + 2) {
    return make_error(ErrorCode::kBadFile, "{}: {} bytes are too few for a safetensors file", name,
                      bytes.size());
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes) {
    return make_error(ErrorCode::kBadFile,
                      "{}: the header claims {} bytes, the limit is {}: not a "
                      "safetensors file?",
                      name, header_bytes, kMaxHeaderBytes);
  }
  if (header_bytes > bytes.size() - sizeof(header_bytes)) {
    return make_error(ErrorCode::kBadFile, "{}: truncated: the header claims {} bytes, {} are left",
                      name, header_bytes, bytes.size() - sizeof(header_bytes));
  }
  return header_bytes;
}

// File name -> tensors that the index places in it.
using ShardMap = std::map<std::string, std::vector<std::string>>;

Result<ShardMap> read_index(const std::string& path) {
  QUIRE_ASSIGN(const std::string text, read_text_file(path, kMaxIndexBytes));
  QUIRE_ASSIGN(const json::object index, parse_json_object(text, path));
  QUIRE_TRY(check_unique_keys(text, path));
  QUIRE_ASSIGN(const json::object* weight_map, JsonFields(index, path).get_object("weight_map"));
  if (weight_map == nullptr || weight_map->empty()) {
    return make_error(ErrorCode::kBadFile, "{}: has no \"weight_map\"", path);
  }
  ShardMap shards;
  for (const auto& [key, value] : *weight_map) {
    const std::string_view tensor(key.data(), key.size());
    if (!value.is_string()) {
      return make_error(ErrorCode::kBadFile, "{}: tensor \"{}\" is not mapped to a file name", path,
                        printable(tensor));
    }
    const std::string shard(value.get_string());
    // The index may come from anywhere: it must not reach outside its folder.
    if (shard.empty() || shard == "." || shard == ".." ||
        shard.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      return make_error(ErrorCode::kBadFile,
                        "{}: tensor \"{}\" is mapped to \"{}\": only the name "
                        "of a file in the same folder is allowed",
                        path, printable(tensor), printable(shard));
    }
    shards[shard].emplace_back(tensor);
  }
  return shards;
}

// The file to read in a folder with neither model.safetensors nor an index: the one with another
// name, else an error that says what the folder holds instead.
Result<std::string> other_weights(const std::string& folder) {
  constexpr std::string_view kPickles[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
  constexpr std::string_view kSafetensors[] = {".safetensors"};
  QUIRE_ASSIGN(std::vector<std::string> names, names_ending_in(folder, kSafetensors));
  const bool adapter = std::erase(names, "adapter_model.safetensors") > 0;
  const auto is_part = [](const std::string& name) { return name.find("-of-") != name.npos; };
  if (names.size() == 1 && !is_part(names[0])) return names[0];
  if (!names.empty()) {
    return make_error(ErrorCode::kNotFound,
                      "{}: {} .safetensors files ({}, ...) and no {} that says which of them are "
                      "the model; {}",
                      folder, names.size(), printable(names[0]), kIndexName,
                      std::any_of(names.begin(), names.end(), is_part)
                          ? "download it"
                          : "keep one model in the folder");
  }
  if (adapter) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: holds an adapter only, no model; merge it into its base model first",
                      folder);
  }
  QUIRE_ASSIGN(const std::vector<std::string> pickles, names_ending_in(folder, kPickles));
  if (!pickles.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: its weights are pickle files only ({}), which can run code when they "
                      "are loaded: refused; use safetensors or GGUF files",
                      folder, printable(pickles[0]));
  }
  return make_error(ErrorCode::kNotFound,
                    "{}: has neither model.safetensors nor {}; other weight formats are not read",
                    folder, kIndexName);
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes,
                                               const std::string& name) {
  QUIRE_ASSIGN(const std::uint64_t header_bytes, read_header_bytes(bytes, name));
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes);
  QUIRE_ASSIGN(const json::object entries, parse_json_object(header, name));
  QUIRE_TRY(check_unique_keys(header, name));
  const std::span<const std::byte> data = bytes.subspan(8 + header_bytes);
  SafetensorsFile file;
  file.file_bytes_ = bytes.size();
  std::vector<Extent> extents;
  for (const auto& [key, value] : entries) {
    const std::string_view tensor(key.data(), key.size());
    if (tensor == "__metadata__") continue;
    TensorView view;
    Extent extent;
    QUIRE_TRY(EntryReader(name, tensor, value).read(data, &view, &extent));
    file.tensors_.emplace(tensor, view);
    extents.push_back(extent);
  }
  QUIRE_TRY(check_coverage(name, std::move(extents), data.size()));
  return file;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  QUIRE_ASSIGN(std::shared_ptr<MappedFile> mapped, MappedFile::open(path));
  QUIRE_ASSIGN(SafetensorsFile file, parse(mapped->bytes(), path));
  file.files_.push_back(std::move(mapped));
  return file;
}

Result<SafetensorsFile> SafetensorsFile::open_folder(const std::string& folder) {
  const std::filesystem::path base(folder);
  const std::string index_path = (base / kIndexName).string();
  const std::string single_path = (base / "model.safetensors").string();
  if (!path_exists(index_path)) {
    if (path_exists(single_path)) return open(single_path);
    QUIRE_ASSIGN(const std::string other, other_weights(folder));
    return open((base / other).string());
  }
  QUIRE_ASSIGN(const ShardMap shards, read_index(index_path));
  SafetensorsFile all;
  for (const auto& [shard, tensors] : shards) {
    const std::string path = (base / shard).string();
    if (!path_exists(path)) {
      return make_error(ErrorCode::kNotFound, "{}: shard \"{}\" is missing; download it",
                        index_path, printable(shard));
    }
    QUIRE_ASSIGN(SafetensorsFile file, open(path));
    for (const std::string& tensor : tensors) {
      const auto found = file.tensors_.find(tensor);
      if (found == file.tensors_.end()) {
        return make_error(ErrorCode::kBadFile, "{}: tensor \"{}\" is not in shard \"{}\"",
                          index_path, printable(tensor), printable(shard));
      }
      all.tensors_.emplace(tensor, found->second);
    }
    all.file_bytes_ += file.file_bytes_;
    all.files_.push_back(std::move(file.files_.front()));
  }
  return all;
}

void SafetensorsFile::release_pages(const TensorView& view) const {
  for (const std::shared_ptr<MappedFile>& file : files_) {
    const std::span<const std::byte> bytes = file->bytes();
    const bool inside = view.data >= bytes.data() && view.data < bytes.data() + bytes.size();
    if (inside) file->release(view.data, static_cast<std::size_t>(view.bytes()));
  }
}

}  // namespace quire
