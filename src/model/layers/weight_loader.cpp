#include "model/layers/weight_loader.h"

namespace quire {
namespace {

Result<std::vector<float>> as_floats(const std::string& name, const TensorView& view) {
  if (!can_dequantize(view.dtype))
    return make_error(ErrorCode::kUnsupported, "tensor '{}' has type {}, which cannot be read as numbers", name,
                      dtype_name(view.dtype));
  std::vector<float> values(static_cast<std::size_t>(view.shape.elements()));
  for (std::int64_t r = 0; r < view.rows(); ++r) dequantize_row(view, r, values.data() + r * view.columns());
  return values;
}

}  // namespace

Result<std::unique_ptr<Linear>> WeightLoader::linear(const std::vector<Part>& parts, std::int64_t inputs,
                                                     bool require_bias) {
  std::vector<TensorView> matrices, biases;
  bool any_bias = false;
  for (const Part& part : parts) {
    QUIRE_ASSIGN(TensorView matrix, weights_.require(part.name + ".weight", Shape{part.outputs, inputs}));
    Result<TensorView> bias = require_bias ? weights_.require(part.name + ".bias", Shape{part.outputs})
                                           : weights_.optional(part.name + ".bias", Shape{part.outputs});
    if (!bias) return tl::unexpected(bias.error());
    any_bias |= !bias->empty();
    matrices.push_back(matrix);
    biases.push_back(*bias);
  }
  if (!any_bias) biases.clear();
  QUIRE_ASSIGN(std::unique_ptr<Linear> packed, backend_.pack_linear(matrices, biases));
  packed_bytes_ += packed->packed_bytes;
  for (const TensorView& matrix : matrices) weights_.release_pages(matrix);
  return packed;
}

Result<std::vector<float>> WeightLoader::vector(const std::string& name, std::int64_t elements) {
  return tensor(name, Shape{elements});
}

Result<std::vector<float>> WeightLoader::tensor(const std::string& name, const Shape& shape) {
  QUIRE_ASSIGN(const TensorView view, weights_.require(name, shape));
  return as_floats(name, view);
}

Result<std::vector<float>> WeightLoader::optional_tensor(const std::string& name, const Shape& shape) {
  QUIRE_ASSIGN(const TensorView view, weights_.optional(name, shape));
  if (view.empty()) return std::vector<float>();
  return as_floats(name, view);
}

Result<TensorView> WeightLoader::matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  QUIRE_ASSIGN(const TensorView view, weights_.require(name, Shape{rows, columns}));
  if (!can_dequantize(view.dtype))
    return make_error(ErrorCode::kUnsupported, "tensor '{}' has type {}, which cannot be read as numbers", name,
                      dtype_name(view.dtype));
  return view;
}

}  // namespace quire
