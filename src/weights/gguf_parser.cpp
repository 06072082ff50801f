#include "weights/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "weights/checked.h"
#include "weights/gguf_types.h"

namespace quire {
namespace {

constexpr std::uint64_t kMaxKeyBytes = 65535;       // the specification's limit
constexpr std::uint64_t kMaxTensorNameBytes = 255;  // ggml's own limit is 63
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kMinAlignment = 8, kMaxAlignment = std::uint64_t{1} << 20;
// Least bytes of one entry: an entry count beyond left / this is a lie.
constexpr std::uint64_t kMinMetadataBytes = 8 + 1 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

enum ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kNumTypes
};
constexpr std::uint64_t kValueBytes[kNumTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

template <class... Args>
tl::unexpected<Error> bad_file(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kBadFile, format, std::forward<Args>(args)...);
}

}  // namespace

GgufParser::GgufParser(std::span<const std::byte> bytes, std::string name) : bytes_(bytes) {
  file_.name_ = std::move(name);
  file_.file_bytes_ = bytes.size();
}

Result<GgufFile> GgufParser::run() {
  QUIRE_TRY(read_header());
  QUIRE_TRY(read_metadata());
  QUIRE_TRY(read_alignment());
  QUIRE_TRY(read_tensor_entries());
  QUIRE_TRY(place_tensors());
  return std::move(file_);
}

template <class T>
Status GgufParser::read(T* out, std::string_view what) {
  if (left() < sizeof(T)) {
    return bad_file("{}: truncated: {} at byte {} needs {} bytes, {} are left", file_.name_, what,
                    pos_, sizeof(T), left());
  }
  std::memcpy(out, bytes_.data() + pos_, sizeof(T));
  pos_ += sizeof(T);
  return {};
}

Status GgufParser::read_string(std::string* out, std::uint64_t max_bytes, std::string_view what) {
  std::uint64_t length = 0;
  QUIRE_TRY(read(&length, what));
  if (length > left()) {
    return bad_file("{}: {} at byte {} claims {} bytes, {} are left in the file", file_.name_, what,
                    pos_, length, left());
  }
  if (length > max_bytes) {
    return bad_file("{}: {} at byte {} has {} bytes, the limit is {}", file_.name_, what, pos_,
                    length, max_bytes);
  }
  out->resize(length);
  std::memcpy(out->data(), bytes_.data() + pos_, length);
  pos_ += length;
  return {};
}

Status GgufParser::read_header() {
  char magic[4] = {};
  QUIRE_TRY(read(&magic, "the magic"));
  if (std::string_view(magic, 4) != "GGUF") {
    return bad_file("{}: not a GGUF file: it starts with \"{}\" instead of \"GGUF\"", file_.name_,
                    printable({magic, 4}));
  }
  QUIRE_TRY(read(&file_.version_, "the version"));
  if (file_.version_ != 0 && (file_.version_ & 0xffffu) == 0) {
    return make_error(
        ErrorCode::kUnsupported,
        "{}: a big-endian GGUF file; only little-endian ones are read: convert it again",
        file_.name_);
  }
  if (file_.version_ != 2 && file_.version_ != 3) {
    return make_error(ErrorCode::kUnsupported, "{}: GGUF version {}; versions 2 and 3 are read",
                      file_.name_, file_.version_);
  }
  QUIRE_TRY(read(&num_tensors_, "the tensor count"));
  QUIRE_TRY(read(&num_metadata_, "the metadata count"));
  if (num_metadata_ > left() / kMinMetadataBytes) {
    return bad_file("{}: claims {} metadata entries, {} bytes can hold at most {}", file_.name_,
                    num_metadata_, left(), left() / kMinMetadataBytes);
  }
  if (num_tensors_ > left() / kMinTensorBytes) {
    return bad_file("{}: claims {} tensors, {} bytes can hold at most {}", file_.name_,
                    num_tensors_, left(), left() / kMinTensorBytes);
  }
  return {};
}

Status GgufParser::read_metadata() {
  for (std::uint64_t i = 0; i < num_metadata_; ++i) {
    std::string key;
    QUIRE_TRY(read_string(&key, kMaxKeyBytes, "a metadata key"));
    if (key.empty()) return bad_file("{}: metadata key number {} is empty", file_.name_, i);
    std::uint32_t type = 0;
    QUIRE_TRY(read(&type, "a metadata type"));
    QUIRE_ASSIGN(GgufValue value, read_value(type, key));
    if (!file_.metadata_index_.emplace(key, file_.metadata_.size()).second) {
      return bad_file("{}: metadata key \"{}\" appears twice", file_.name_, printable(key));
    }
    file_.metadata_.emplace_back(std::move(key), std::move(value));
  }
  return {};
}

Result<GgufValue> GgufParser::read_value(std::uint32_t type, std::string_view key) {
  if (type == kArray) return read_array(key);
  GgufArray one;
  if (type == kString) {
    std::string text;
    QUIRE_TRY(read_string(&text, left(), "a metadata string"));
    return GgufValue(std::move(text));
  }
  if (type == kU64) {
    std::uint64_t value = 0;
    QUIRE_TRY(read(&value, "a metadata value"));
    return GgufValue(value);
  }
  QUIRE_TRY(read_array_element(type, key, &one));
  if (type == kF32 || type == kF64) return GgufValue(one.floats[0]);
  if (type == kBool) return GgufValue(one.ints[0] != 0);
  if (type == kI8 || type == kI16 || type == kI32 || type == kI64) return GgufValue(one.ints[0]);
  return GgufValue(static_cast<std::uint64_t>(one.ints[0]));
}

Result<GgufValue> GgufParser::read_array(std::string_view key) {
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  QUIRE_TRY(read(&type, "an array's type"));
  QUIRE_TRY(read(&count, "an array's length"));
  if (type == kArray) {
    return bad_file("{}: metadata \"{}\" is an array of arrays, which is not supported",
                    file_.name_, printable(key));
  }
  if (type >= kNumTypes) {
    return bad_file("{}: metadata \"{}\" is an array of unknown type {} (known: 0 to {})",
                    file_.name_, printable(key), type, kNumTypes - 1);
  }
  if (count > left() / kValueBytes[type]) {
    return bad_file("{}: metadata \"{}\" claims {} elements, {} bytes can hold at most {}",
                    file_.name_, printable(key), count, left(), left() / kValueBytes[type]);
  }
  GgufArray array;
  if (type == kString) {
    array.strings.reserve(count);
  } else if (type == kF32 || type == kF64) {
    array.floats.reserve(count);
  } else {
    array.ints.reserve(count);
  }
  for (std::uint64_t i = 0; i < count; ++i) QUIRE_TRY(read_array_element(type, key, &array));
  return GgufValue(std::move(array));
}

Status GgufParser::read_array_element(std::uint32_t type, std::string_view key, GgufArray* array) {
  const auto read_as = [&]<class T>(T value) -> Status {
    QUIRE_TRY(read(&value, "a metadata value"));
    if constexpr (std::is_floating_point_v<T>) {
      array->floats.push_back(static_cast<double>(value));
    } else {
      if (!std::in_range<std::int64_t>(value)) {
        return bad_file("{}: metadata \"{}\" holds {}, the limit is {}", file_.name_,
                        printable(key), value, std::numeric_limits<std::int64_t>::max());
      }
      array->ints.push_back(static_cast<std::int64_t>(value));
    }
    return {};
  };
  switch (type) {
    case kU8:
      return read_as(std::uint8_t{});
    case kI8:
      return read_as(std::int8_t{});
    case kU16:
      return read_as(std::uint16_t{});
    case kI16:
      return read_as(std::int16_t{});
    case kU32:
      return read_as(std::uint32_t{});
    case kI32:
      return read_as(std::int32_t{});
    case kU64:
      return read_as(std::uint64_t{});
    case kI64:
      return read_as(std::int64_t{});
    case kF32:
      return read_as(float{});
    case kF64:
      return read_as(double{});
    case kString:
      return read_string(&array->strings.emplace_back(), left(), "an array's string");
    case kBool:
      QUIRE_TRY(read_as(std::uint8_t{}));
      if (array->ints.back() > 1) {
        return bad_file("{}: metadata \"{}\" is a bool of value {} (0 or 1)", file_.name_,
                        printable(key), array->ints.back());
      }
      return {};
    default:
      return bad_file("{}: metadata \"{}\" has unknown type {} (known: 0 to {})", file_.name_,
                      printable(key), type, kNumTypes - 1);
  }
}

Status GgufParser::read_alignment() {
  if (file_.find("general.alignment") == nullptr) return {};
  const auto value = file_.get_int("general.alignment");
  if (!value || *value < 0) {
    return bad_file("{}: general.alignment is not a positive integer", file_.name_);
  }
  alignment_ = static_cast<std::uint64_t>(*value);
  if (!std::has_single_bit(alignment_) || alignment_ < kMinAlignment ||
      alignment_ > kMaxAlignment) {
    return bad_file("{}: general.alignment is {}; it must be a power of two from {} to {}",
                    file_.name_, alignment_, kMinAlignment, kMaxAlignment);
  }
  return {};
}

Status GgufParser::read_tensor_entries() {
  for (std::uint64_t i = 0; i < num_tensors_; ++i) {
    QUIRE_ASSIGN(TensorEntry entry, read_tensor_entry());
    if (!file_.tensors_.emplace(entry.name, TensorView{}).second) {
      return bad_file("{}: tensor \"{}\" appears twice", file_.name_, printable(entry.name));
    }
    file_.tensor_names_.push_back(entry.name);
    entries_.push_back(std::move(entry));
  }
  return {};
}

Status GgufParser::read_dims(std::string_view name, std::vector<std::uint64_t>* dims) {
  std::uint32_t rank = 0;
  QUIRE_TRY(read(&rank, "a tensor's rank"));
  if (rank < 1 || rank > kMaxDims) {
    return bad_file("{}: tensor \"{}\" has {} dimensions; 1 to {} are allowed", file_.name_,
                    printable(name), rank, kMaxDims);
  }
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    std::uint64_t dim = 0;
    QUIRE_TRY(read(&dim, "a tensor's dimension"));
    if (dim == 0) {
      return bad_file("{}: tensor \"{}\" has dimension {} of size 0", file_.name_, printable(name),
                      i);
    }
    // 8 bytes is the largest element: the byte count stays below 2^63 too.
    constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 8;
    if (!checked_multiply(elements, dim, &elements) || elements > kMaxElements) {
      return bad_file("{}: tensor \"{}\": the product of its dimensions overflows at size {}",
                      file_.name_, printable(name), dim);
    }
    dims->push_back(dim);
  }
  return {};
}

Result<GgufParser::TensorEntry> GgufParser::read_tensor_entry() {
  TensorEntry entry;
  QUIRE_TRY(read_string(&entry.name, kMaxTensorNameBytes, "a tensor's name"));
  if (entry.name.empty()) {
    return bad_file("{}: tensor number {} has no name", file_.name_, entries_.size());
  }
  std::vector<std::uint64_t> dims;  // fastest first
  QUIRE_TRY(read_dims(entry.name, &dims));
  std::uint32_t number = 0;
  QUIRE_TRY(read(&number, "a tensor's type"));
  const GgmlType* type = find_ggml_type(number);
  if (type == nullptr) {
    return bad_file("{}: tensor \"{}\" has unknown type number {}", file_.name_,
                    printable(entry.name), number);
  }
  if (!type->dtype) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: tensor \"{}\" has type {} (number {}), which is not supported; take "
                      "another quantization of this model, e.g. Q4_K_M or Q8_0",
                      file_.name_, printable(entry.name), type->name, number);
  }
  entry.dtype = *type->dtype;
  const auto block = static_cast<std::uint64_t>(dtype_info(entry.dtype).block_elements);
  if (dims[0] % block != 0) {
    return bad_file("{}: tensor \"{}\" has rows of {} elements, type {} needs a multiple of {}",
                    file_.name_, printable(entry.name), dims[0], type->name, block);
  }
  for (std::size_t i = dims.size(); i-- > 0;) {
    entry.shape.push_back(static_cast<std::int64_t>(dims[i]));
  }
  entry.bytes = static_cast<std::uint64_t>(TensorView{nullptr, entry.dtype, entry.shape}.bytes());
  QUIRE_TRY(read(&entry.offset, "a tensor's offset"));
  if (entry.offset % alignment_ != 0) {
    return bad_file("{}: tensor \"{}\" is misaligned: offset {} is not a multiple of {}",
                    file_.name_, printable(entry.name), entry.offset, alignment_);
  }
  return entry;
}

Status GgufParser::place_tensors() {
  if (entries_.empty()) return {};
  const std::uint64_t data_begin = (pos_ + alignment_ - 1) / alignment_ * alignment_;
  const std::uint64_t data_bytes = data_begin > bytes_.size() ? 0 : bytes_.size() - data_begin;
  std::sort(entries_.begin(), entries_.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.offset < b.offset; });
  const TensorEntry* previous = nullptr;
  for (const TensorEntry& entry : entries_) {
    if (entry.offset > data_bytes || entry.bytes > data_bytes - entry.offset) {
      return bad_file(
          "{}: tensor \"{}\" needs {} bytes at offset {} of the data, which has {}: the "
          "file is truncated; download it again",
          file_.name_, printable(entry.name), entry.bytes, entry.offset, data_bytes);
    }
    if (previous != nullptr && previous->offset + previous->bytes > entry.offset) {
      return bad_file("{}: tensors \"{}\" and \"{}\" overlap: bytes {} to {}, and {} on",
                      file_.name_, printable(previous->name), printable(entry.name),
                      previous->offset, previous->offset + previous->bytes, entry.offset);
    }
    previous = &entry;
    file_.tensors_[entry.name] =
        TensorView{bytes_.data() + data_begin + entry.offset, entry.dtype, entry.shape};
  }
  return {};
}

}  // namespace quire
