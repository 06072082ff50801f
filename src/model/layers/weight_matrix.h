// A matrix on its way into a packed Linear: rows of the mapped file, or a temporary copy in another
// order.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/buffer.h"
#include "tensor/tensor_view.h"

namespace quire {

struct WeightMatrix {
  TensorView view;  // [outputs, inputs]
  Buffer copy;      // the view's memory, where that is not the file

  // Row i is source's row order[i], in the source's type.
  static WeightMatrix in_order(const TensorView& source, std::span<const std::int64_t> order);
  // [columns, rows]: plain numbers keep their type, quantized ones become f32.
  static WeightMatrix transposed(const TensorView& source);
  // WeightMatrix `index` of a stack [count, rows, columns] (or [count * rows, columns]).
  static TensorView of_stack(const TensorView& stack, std::int64_t index, std::int64_t rows,
                             std::int64_t columns);
};

}  // namespace quire
