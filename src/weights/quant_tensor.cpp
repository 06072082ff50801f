// Finds the parts of quantized tensors by the names that each format gives them, and checks them.
#include "weights/quant_tensor.h"

#include <algorithm>
#include <cstring>

#include "weights/checked.h"

namespace quire {
namespace {

tl::unexpected<Error> wrong(const std::string& name, const TensorView& view, std::string_view what,
                            const std::string& needed) {
  return make_error(ErrorCode::kBadFile, "tensor \"{}\" is {} {}; {} needs {}", printable(name),
                    dtype_name(view.dtype), view.shape.to_string(), what, needed);
}

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// The parts of one layer, by name.
class Parts {
 public:
  Parts(std::string module, const TensorTable& table) : module_(std::move(module)), table_(table) {}

  const std::string& module() const { return module_; }
  TensorView find(const std::string& suffix) {
    const auto found = table_.find(module_ + suffix);
    if (found == table_.end()) return {};
    if (std::find(taken_.begin(), taken_.end(), found->first) == taken_.end())
      taken_.push_back(found->first);
    return found->second;
  }
  // The part, of integers of this type and this shape.
  Result<TensorView> integers(const std::string& suffix, DType dtype, const Shape& shape,
                              std::string_view what) {
    return checked(
        suffix, [&](DType have) { return have == dtype; }, std::string(dtype_name(dtype)), shape,
        what);
  }
  Result<TensorView> scales(const std::string& suffix, const Shape& shape, std::string_view what) {
    return checked(suffix, is_float, "F16, BF16 or F32", shape, what);
  }
  tl::unexpected<Error> missing(const std::string& suffix, std::string_view what) const {
    return make_error(ErrorCode::kBadFile, "there is no tensor \"{}\", which {} needs",
                      printable(module_ + suffix), what);
  }
  tl::unexpected<Error> wrong_part(const std::string& suffix, const TensorView& view,
                                   std::string_view what, const std::string& needed) const {
    return wrong(module_ + suffix, view, what, needed);
  }
  // Takes everything that was looked at, and what belongs to activations, out of the table.
  std::vector<TensorView> take(TensorTable* table) {
    for (const char* suffix : {".input_scale", ".input_zero_point", ".weight_shape"}) find(suffix);
    std::vector<TensorView> views;
    for (const std::string& name : taken_) {
      views.push_back(table->at(name));
      table->erase(name);
    }
    return views;
  }

 private:
  template <class TypeFits>
  Result<TensorView> checked(const std::string& suffix, TypeFits fits, const std::string& type,
                             const Shape& shape, std::string_view what) {
    TensorView view = find(suffix);
    if (view.empty()) return missing(suffix, what);
    if (!fits(view.dtype) || view.shape.elements() != shape.elements() ||
        (shape.elements() != 1 && !same_rows(view.shape, shape)))
      return wrong_part(suffix, view, what, type + " " + shape.to_string());
    view.shape = shape;
    return view;
  }
  // [n] may stand for [n, 1].
  static bool same_rows(const Shape& have, const Shape& want) {
    return have == want || (have.rank() == 1 && want.rank() == 2 && want[1] == 1);
  }

  std::string module_;
  const TensorTable& table_;
  std::vector<std::string> taken_;
};

// ---- group sizes and activation order

Status set_groups(const Parts& parts, std::string_view what, std::int64_t group_size,
                  QuantTensor* tensor) {
  const std::int64_t inputs = tensor->inputs();
  tensor->group_size = group_size < 0 ? inputs : group_size;
  if (tensor->group_size <= inputs && inputs % tensor->group_size == 0) return {};
  return make_error(ErrorCode::kBadFile,
                    "\"{}\" has {} inputs, which group_size {} of {} does not divide",
                    printable(parts.module()), inputs, group_size, what);
}

// The group of each input, checked; none when the inputs are in the order of their groups.
Status set_order(Parts& parts, const std::string& suffix, std::string_view what, bool needed,
                 QuantTensor* tensor) {
  if (parts.find(suffix).empty()) {
    if (needed && tensor->groups() > 1) return parts.missing(suffix, what);
    return {};
  }
  QUIRE_ASSIGN(const TensorView order,
               parts.integers(suffix, DType::kI32, {tensor->inputs()}, what));
  bool in_order = true;
  for (std::int64_t i = 0; i < tensor->inputs(); ++i) {
    std::int32_t group = 0;
    std::memcpy(&group, order.data + 4 * i, 4);
    if (group < 0 || group >= tensor->groups())
      return make_error(ErrorCode::kBadFile,
                        "tensor \"{}\" puts input {} into group {}; there are {} groups",
                        printable(parts.module() + suffix), i, group, tensor->groups());
    in_order = in_order && group == i / tensor->group_size;
  }
  if (!in_order) tensor->order = order;
  return {};
}

// ---- one format each

Result<QuantTensor> read_awq(Parts& parts, const QuantScheme& scheme) {
  constexpr std::string_view kWhat = "AWQ";
  QuantTensor tensor;
  tensor.layout = CodeLayout::kAwq;
  tensor.codes = parts.find(".qweight");
  if (tensor.codes.dtype != DType::kI32 || tensor.codes.shape.rank() != 2)
    return parts.wrong_part(".qweight", tensor.codes, kWhat, "I32 [in, out / 8]");
  const std::int64_t outputs = tensor.codes.shape[1] * 8;
  tensor.shape = {outputs, tensor.codes.shape[0]};
  QUIRE_TRY(set_groups(parts, kWhat, scheme.group_size, &tensor));
  QUIRE_ASSIGN(tensor.scales, parts.scales(".scales", {tensor.groups(), outputs}, kWhat));
  QUIRE_ASSIGN(tensor.zeros,
               parts.integers(".qzeros", DType::kI32, {tensor.groups(), outputs / 8}, kWhat));
  return tensor;
}

Result<QuantTensor> read_gptq(Parts& parts, const QuantConfig& config, const QuantScheme& scheme) {
  constexpr std::string_view kWhat = "GPTQ";
  QuantTensor tensor;
  tensor.layout = CodeLayout::kGptq;
  tensor.bits = scheme.bits;
  tensor.codes = parts.find(".qweight");
  const std::int64_t fields = 32 / scheme.bits;
  if (tensor.codes.dtype != DType::kI32 || tensor.codes.shape.rank() != 2 ||
      tensor.codes.shape[1] % fields != 0)
    return parts.wrong_part(".qweight", tensor.codes, kWhat,
                            fmt::format("I32 [in / {0}, a multiple of {0}]", fields));
  const std::int64_t outputs = tensor.codes.shape[1];
  tensor.shape = {outputs, tensor.codes.shape[0] * fields};
  QUIRE_TRY(set_groups(parts, kWhat, scheme.group_size, &tensor));
  QUIRE_ASSIGN(tensor.scales, parts.scales(".scales", {tensor.groups(), outputs}, kWhat));
  QUIRE_ASSIGN(tensor.zeros,
               parts.integers(".qzeros", DType::kI32, {tensor.groups(), outputs / fields}, kWhat));
  tensor.zero_offset = config.zeros_less_one ? 1 : 0;
  QUIRE_TRY(set_order(parts, ".g_idx", kWhat, config.act_order, &tensor));
  return tensor;
}

Result<Shape> read_weight_shape(Parts& parts, std::string_view what) {
  QUIRE_ASSIGN(const TensorView view, parts.integers(".weight_shape", DType::kI64, {2}, what));
  std::int64_t shape[2];
  std::memcpy(shape, view.data, sizeof(shape));
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (shape[0] < 1 || shape[1] < 1 || shape[0] > kMost || shape[1] > kMost / shape[0])
    return make_error(ErrorCode::kBadFile, "tensor \"{}\" says [{}, {}], which is no shape",
                      printable(parts.module() + ".weight_shape"), shape[0], shape[1]);
  return Shape{shape[0], shape[1]};
}

// compressed-tensors' words and its bytes.
Result<QuantTensor> read_ct_integers(Parts& parts, const QuantScheme& scheme, bool packed) {
  constexpr std::string_view kWhat = "compressed-tensors";
  QuantTensor tensor;
  tensor.layout = packed ? CodeLayout::kRows : CodeLayout::kInt8;
  tensor.bits = packed ? scheme.bits : 8;
  if (packed) {
    QUIRE_ASSIGN(tensor.shape, read_weight_shape(parts, kWhat));
    const std::int64_t words = (tensor.inputs() * tensor.bits + 31) / 32;
    QUIRE_ASSIGN(tensor.codes,
                 parts.integers(".weight_packed", DType::kI32, {tensor.outputs(), words}, kWhat));
  } else {
    tensor.codes = parts.find(".weight");
    if (tensor.codes.shape.rank() != 2)
      return parts.wrong_part(".weight", tensor.codes, kWhat, "two dimensions");
    tensor.shape = tensor.codes.shape;
  }
  const std::int64_t outputs = tensor.outputs();
  QUIRE_TRY(set_groups(parts, kWhat, scheme.group_size, &tensor));
  const bool one = scheme.group_rows < 0;  // for the whole matrix
  tensor.group_rows = one ? outputs : 1;
  const Shape scales = one ? Shape{1} : Shape{outputs, tensor.groups()};
  QUIRE_ASSIGN(tensor.scales, parts.scales(".weight_scale", scales, kWhat));
  if (!scheme.symmetric) {
    const std::int64_t words = (outputs * tensor.bits + 31) / 32;
    const Shape zeros = !packed ? scales : one ? Shape{1} : Shape{words, tensor.groups()};
    QUIRE_ASSIGN(tensor.zeros, parts.integers(".weight_zero_point",
                                              packed ? DType::kI32 : DType::kI8, zeros, kWhat));
  } else {
    parts.find(".weight_zero_point");  // of zeros
  }
  QUIRE_TRY(set_order(parts, ".weight_g_idx", kWhat, false, &tensor));
  return tensor;
}

Result<QuantTensor> read_float8(Parts& parts, const QuantScheme& scheme) {
  constexpr std::string_view kWhat = "FP8";
  QuantTensor tensor;
  tensor.layout = CodeLayout::kFloat8;
  tensor.bits = 8;
  tensor.codes = parts.find(".weight");
  if (tensor.codes.shape.rank() != 2)
    return parts.wrong_part(".weight", tensor.codes, kWhat, "two dimensions");
  tensor.shape = tensor.codes.shape;
  const std::int64_t outputs = tensor.outputs(), inputs = tensor.inputs();
  tensor.group_rows = scheme.group_rows < 0 ? outputs : scheme.group_rows;
  tensor.group_size = scheme.group_size < 0 ? inputs : scheme.group_size;
  const bool inverse = !parts.find(".weight_scale_inv").empty();
  const std::int64_t rows = (outputs + tensor.group_rows - 1) / tensor.group_rows;
  QUIRE_ASSIGN(tensor.scales, parts.scales(inverse ? ".weight_scale_inv" : ".weight_scale",
                                           {rows, tensor.groups()}, kWhat));
  return tensor;
}

Result<QuantTensor> read_mxfp4(Parts& parts) {
  constexpr std::string_view kWhat = "MXFP4";
  QuantTensor tensor;
  tensor.layout = CodeLayout::kMxfp4;
  tensor.codes = parts.find("_blocks");
  const Shape& blocks = tensor.codes.shape;
  if (tensor.codes.dtype != DType::kU8 || blocks.rank() != 4 || blocks[3] != 16)
    return parts.wrong_part("_blocks", tensor.codes, kWhat, "U8 [experts, out, in / 32, 16]");
  tensor.shape = {blocks[0], blocks[1], blocks[2] * 32};
  tensor.group_size = 32;
  QUIRE_ASSIGN(tensor.scales,
               parts.integers("_scales", DType::kU8, {blocks[0], blocks[1], blocks[2]}, kWhat));
  return tensor;
}

// ---- all of them

// The name's end that marks a quantized tensor's main part under this method; empty: it marks none.
std::string_view marker(const QuantConfig& config, std::string_view name, const TensorView& view) {
  const auto ends = [&](std::string_view suffix) {
    return name.ends_with(suffix) ? suffix : std::string_view();
  };
  switch (config.method) {
    case QuantMethod::kAwq:
    case QuantMethod::kGptq:
      return ends(".qweight");
    case QuantMethod::kMxfp4:
      return ends("_blocks");
    case QuantMethod::kCompressedTensors:
      if (name.ends_with(".weight_packed")) return ".weight_packed";
      if (view.dtype == DType::kI8) return ends(".weight");
      [[fallthrough]];
    case QuantMethod::kFp8:
      return view.dtype == DType::kF8E4M3 ? ends(".weight") : std::string_view();
    case QuantMethod::kNone:
      break;
  }
  return {};
}

Result<QuantTensor> read_tensor(Parts& parts, const QuantConfig& config, std::string_view suffix,
                                DType stored) {
  const QuantScheme& scheme = config.scheme_of(parts.module());
  switch (config.method) {
    case QuantMethod::kAwq:
      return read_awq(parts, scheme);
    case QuantMethod::kGptq:
      return read_gptq(parts, config, scheme);
    case QuantMethod::kMxfp4:
      return read_mxfp4(parts);
    default:
      break;
  }
  if (stored == DType::kF8E4M3) return read_float8(parts, scheme);
  return read_ct_integers(parts, scheme, suffix == ".weight_packed");
}

}  // namespace

Result<std::vector<QuantTensor>> take_quant_tensors(const QuantConfig& config, TensorTable* table) {
  std::vector<std::pair<std::string, std::string_view>> found;  // module, suffix
  for (const auto& [name, view] : *table) {
    const std::string_view suffix = marker(config, name, view);
    if (!suffix.empty()) found.emplace_back(name.substr(0, name.size() - suffix.size()), suffix);
  }
  std::sort(found.begin(), found.end());  // so that the error is the same one every time
  std::vector<QuantTensor> tensors;
  for (const auto& [module, suffix] : found) {
    Parts parts(module, *table);
    const TensorView main = parts.find(std::string(suffix));
    if (main.shape.elements() == 0)
      return parts.wrong_part(std::string(suffix), main, "a quantized layer", "elements");
    QUIRE_ASSIGN(QuantTensor tensor, read_tensor(parts, config, suffix, main.dtype));
    tensor.name = module + (config.method == QuantMethod::kMxfp4 ? "" : ".weight");
    tensor.parts = parts.take(table);
    choose_dtype(&tensor);
    if (table->contains(tensor.name))
      return make_error(ErrorCode::kBadFile, "there are \"{}\" and \"{}\"; one of them is enough",
                        printable(tensor.name), printable(module + std::string(suffix)));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace quire
