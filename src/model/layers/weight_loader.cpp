#include "model/layers/weight_loader.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "tensor/dequantize.h"
#include "tensor/lossless.h"
#include "tensor/quantize.h"

namespace quire {
namespace {

Status check_readable(const std::string& name, const TensorView& view) {
  if (can_dequantize(view.dtype)) return {};
  return make_error(ErrorCode::kUnsupported,
                    "tensor '{}' has type {}, which cannot be read as numbers", name,
                    dtype_name(view.dtype));
}

// Matrices are not copied element by element: no double precision.
Status check_matrix(const std::string& name, const TensorView& view) {
  QUIRE_TRY(check_readable(name, view));
  if (is_readable(view.dtype)) return {};
  return make_error(ErrorCode::kUnsupported,
                    "tensor '{}' has type {}; convert it to F32, F16 or BF16", name,
                    dtype_name(view.dtype));
}

Result<std::vector<float>> as_floats(const std::string& name, const TensorView& view) {
  QUIRE_TRY(check_readable(name, view));
  std::vector<float> values(static_cast<std::size_t>(view.shape.elements()));
  for (std::int64_t r = 0; r < view.rows(); ++r)
    dequantize_row(view, r, values.data() + r * view.columns());
  return values;
}

}  // namespace

Result<WeightMatrix> WeightLoader::matrix(const Part& part, std::int64_t inputs,
                                          TensorView* source) {
  const Shape shape = part.transposed ? Shape{inputs, part.rows} : Shape{part.rows, inputs};
  QUIRE_ASSIGN(*source, weights_.require(part.name + ".weight", shape));
  QUIRE_TRY(check_matrix(part.name + ".weight", *source));
  WeightMatrix matrix;
  matrix.view = *source;
  if (!part.transposed && part.order.empty()) return matrix;
  if (part.transposed) matrix = WeightMatrix::transposed(*source);
  if (!part.order.empty()) matrix = WeightMatrix::in_order(matrix.view, part.order);
  return matrix;
}

Result<std::vector<float>> WeightLoader::bias_of(const Part& part, Bias bias) {
  const std::string name = part.name + ".bias";
  const Shape shape{part.rows};
  Result<TensorView> view =
      bias == Bias::kRequired ? weights_.require(name, shape) : weights_.optional(name, shape);
  if (!view) return tl::unexpected(view.error());
  if (view->empty() || bias == Bias::kIgnored) return std::vector<float>();
  QUIRE_ASSIGN(std::vector<float> values, as_floats(name, *view));
  if (part.order.empty()) return values;
  std::vector<float> ordered;
  ordered.reserve(part.order.size());
  for (const std::int64_t row : part.order)
    ordered.push_back(values[static_cast<std::size_t>(row)]);
  return ordered;
}

Result<std::unique_ptr<Linear>> WeightLoader::linear(const std::vector<Part>& parts,
                                                     std::int64_t inputs, Bias bias,
                                                     Precision precision) {
  std::vector<WeightMatrix> matrices;
  std::vector<std::vector<float>> biases;
  std::vector<TensorView> sources;
  for (const Part& part : parts) {
    TensorView source;
    QUIRE_ASSIGN(WeightMatrix matrix, this->matrix(part, inputs, &source));
    QUIRE_ASSIGN(std::vector<float> values, bias_of(part, bias));
    matrices.push_back(std::move(matrix));
    biases.push_back(std::move(values));
    sources.push_back(source);
  }
  QUIRE_ASSIGN(std::unique_ptr<Linear> packed, pack(matrices, biases, precision));
  for (const TensorView& source : sources) release(source);
  return packed;
}

// A matrix of plain numbers as blocks of 32, in *storage; itself where it is none, or where its
// rows are no whole blocks.
TensorView WeightLoader::quantized(const TensorView& matrix, Buffer* storage) {
  constexpr std::int64_t kRows = 16;  // of one call
  if (is_quantized(matrix.dtype) || matrix.columns() % 32 != 0) return matrix;
  TensorView blocks{nullptr, online_bits_ == 4 ? DType::kQ4_0 : DType::kQ8_0, matrix.shape};
  *storage = Buffer(static_cast<std::size_t>(blocks.bytes()));
  blocks.data = storage->data();
  backend_.parallel_for((matrix.rows() + kRows - 1) / kRows, [&](std::int64_t part) {
    std::vector<float> row(static_cast<std::size_t>(matrix.columns()));
    const std::int64_t end = std::min(matrix.rows(), (part + 1) * kRows);
    for (std::int64_t r = part * kRows; r < end; ++r) {
      dequantize_row(matrix, r, row.data());
      quantize_row(blocks.dtype, row.data(), matrix.columns(),
                   storage->data() + r * blocks.row_bytes());
    }
  });
  return blocks;
}

Result<std::unique_ptr<Linear>> WeightLoader::pack(const std::vector<WeightMatrix>& matrices,
                                                   const std::vector<std::vector<float>>& biases,
                                                   Precision precision) {
  std::vector<TensorView> views, bias_views;
  bool any_bias = false;
  // Types that no product takes are converted first; the copies live until they are packed.
  std::deque<Buffer> converted;
  for (const WeightMatrix& matrix : matrices) {
    TensorView view = as_lossless(matrix.view, &converted.emplace_back());
    if (online_bits_ != 0 && precision == Precision::kMayQuantize)
      view = quantized(view, &converted.emplace_back());
    views.push_back(view);
  }
  for (const std::vector<float>& bias : biases) {
    TensorView view;
    if (!bias.empty()) {
      view = {reinterpret_cast<const std::byte*>(bias.data()), DType::kF32,
              Shape{static_cast<std::int64_t>(bias.size())}};
      any_bias = true;
    }
    bias_views.push_back(view);
  }
  if (!any_bias) bias_views.clear();
  QUIRE_ASSIGN(std::unique_ptr<Linear> packed, backend_.pack_linear(views, bias_views));
  packed_bytes_ += packed->packed_bytes;
  return packed;
}

Result<std::unique_ptr<Linear>> WeightLoader::pack_heads(
    const std::vector<WeightMatrix>& matrices) {
  std::vector<TensorView> views;
  views.reserve(matrices.size());
  std::deque<Buffer> converted;
  for (const WeightMatrix& matrix : matrices)
    views.push_back(as_lossless(matrix.view, &converted.emplace_back()));
  QUIRE_ASSIGN(std::unique_ptr<Linear> packed, backend_.pack_heads(views));
  packed_bytes_ += packed->packed_bytes;
  return packed;
}

Result<std::vector<float>> WeightLoader::vector(const std::string& name, std::int64_t elements) {
  return tensor(name, Shape{elements});
}

Result<std::vector<float>> WeightLoader::tensor(const std::string& name, const Shape& shape) {
  QUIRE_ASSIGN(const TensorView view, weights_.require(name, shape));
  Result<std::vector<float>> values = as_floats(name, view);
  release(view);
  return values;
}

Result<std::vector<float>> WeightLoader::optional_tensor(const std::string& name,
                                                         const Shape& shape) {
  QUIRE_ASSIGN(const TensorView view, weights_.optional(name, shape));
  if (view.empty()) return std::vector<float>();
  return as_floats(name, view);
}

Result<float> WeightLoader::scalar(const std::string& name) {
  const TensorView found = weights_.find(name);
  const Shape shape = found.empty() ? Shape{1} : found.shape;
  QUIRE_ASSIGN(TensorView view, weights_.require(name, shape));
  if (view.shape.elements() != 1)
    return make_error(ErrorCode::kBadFile, "tensor '{}' has shape {}; one number is expected", name,
                      shape.to_string());
  view.shape = Shape{1};
  QUIRE_ASSIGN(const std::vector<float> values, as_floats(name, view));
  return values[0];
}

int WeightLoader::rank(const std::string& name) const {
  const TensorView found = weights_.find(name);
  return found.empty() ? 0 : found.shape.rank();
}

Result<TensorView> WeightLoader::view(const std::string& name, const Shape& shape) {
  QUIRE_ASSIGN(const TensorView view, weights_.require(name, shape));
  QUIRE_TRY(check_matrix(name, view));
  return view;
}

Result<TensorView> WeightLoader::table(const std::string& name, std::int64_t columns) {
  const TensorView found = weights_.find(name);
  const std::int64_t rows = !found.empty() && found.shape.rank() == 2 ? found.shape[0] : 1;
  return view(name, Shape{rows, columns});
}

}  // namespace quire
