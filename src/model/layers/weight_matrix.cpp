#include "model/layers/weight_matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "weights/weight_source.h"

namespace quire {

WeightMatrix WeightMatrix::in_order(const TensorView& source, std::span<const std::int64_t> order) {
  const auto bytes = static_cast<std::size_t>(source.row_bytes());
  WeightMatrix matrix;
  matrix.copy = Buffer(order.size() * bytes);
  for (std::size_t i = 0; i < order.size(); ++i)
    std::memcpy(matrix.copy.data() + i * bytes, source.row(order[i]), bytes);
  matrix.view = {matrix.copy.data(), source.dtype,
                 Shape{static_cast<std::int64_t>(order.size()), source.columns()},
                 source.column_order};
  return matrix;
}

WeightMatrix WeightMatrix::transposed(const TensorView& source) {
  const std::int64_t rows = source.rows(), columns = source.columns();
  const DType dtype = is_quantized(source.dtype) ? DType::kF32 : source.dtype;
  const auto element = static_cast<std::size_t>(dtype_info(dtype).block_bytes);
  WeightMatrix matrix;
  matrix.copy = Buffer(static_cast<std::size_t>(rows * columns) * element);
  std::vector<float> widened(is_quantized(source.dtype) ? static_cast<std::size_t>(columns) : 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::byte* row = source.row(r);
    if (!widened.empty()) {
      dequantize_row(source, r, widened.data());
      row = reinterpret_cast<const std::byte*>(widened.data());
    }
    std::byte* const target = matrix.copy.data() + static_cast<std::size_t>(r) * element;
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(target + static_cast<std::size_t>(c * rows) * element,
                  row + static_cast<std::size_t>(c) * element, element);
    }
  }
  matrix.view = {matrix.copy.data(), dtype, Shape{columns, rows}};
  return matrix;
}

TensorView WeightMatrix::of_stack(const TensorView& stack, std::int64_t index, std::int64_t rows,
                                  std::int64_t columns) {
  const std::int64_t bytes = rows * row_bytes(stack.dtype, columns);
  return {stack.data + index * bytes, stack.dtype, Shape{rows, columns}, stack.column_order};
}

}  // namespace quire
