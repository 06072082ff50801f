// The whole-matrix face of tensor/dequantize.h, which holds the definition of every block type.
#include <cstring>
#include <vector>

#include "base/check.h"
#include "tensor/dequantize.h"
#include "weights/weight_source.h"

namespace quire {

bool can_dequantize(DType dtype) { return dtype == DType::kF64 || is_readable(dtype); }

void dequantize_row(const TensorView& matrix, std::int64_t row, float* out) {
  QUIRE_CHECK(row >= 0 && row < matrix.rows());
  if (matrix.column_order != nullptr) {
    std::vector<float> stored(static_cast<std::size_t>(matrix.columns()));
    dequantize_row(matrix.dtype, matrix.row(row), matrix.columns(), stored.data());
    for (std::size_t c = 0; c < stored.size(); ++c) out[matrix.column_order[c]] = stored[c];
    return;
  }
  if (matrix.dtype != DType::kF64) {
    return dequantize_row(matrix.dtype, matrix.row(row), matrix.columns(), out);
  }
  for (std::int64_t i = 0; i < matrix.columns(); ++i) {
    double value = 0;
    std::memcpy(&value, matrix.row(row) + i * static_cast<std::int64_t>(sizeof(value)),
                sizeof(value));
    out[i] = static_cast<float>(value);
  }
}

}  // namespace quire
