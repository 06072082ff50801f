// A read-only look at a tensor that lives elsewhere (a mapped file, a Buffer): pointer, dtype,
// shape. Row-major; the last dimension is contiguous (and blocked, for quantized types).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace quire {

class Shape {
 public:
  static constexpr int kMaxRank = 5;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) {
    for (std::int64_t d : dims) push_back(d);
  }
  void push_back(std::int64_t dim) {
    QUIRE_CHECK(rank_ < kMaxRank);
    dims_[static_cast<std::size_t>(rank_++)] = dim;
  }
  int rank() const { return rank_; }
  std::int64_t operator[](int i) const {
    QUIRE_DCHECK(i >= 0 && i < rank_);
    return dims_[static_cast<std::size_t>(i)];
  }
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= (*this)[i];
    return product;
  }
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;
  }
  std::string to_string() const;  // "[2, 3]"

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  // [columns] or null. Stored column c of a matrix is its input column_order[c] (activation order
  // of quantized weights); null: as they lie. Lives as long as the data.
  const std::int32_t* column_order = nullptr;

  bool empty() const { return data == nullptr; }
  // A scalar (rank 0) is a row of one.
  std::int64_t rows() const { return shape.elements() / columns(); }
  std::int64_t columns() const { return shape.rank() == 0 ? 1 : shape[shape.rank() - 1]; }
  std::int64_t row_bytes() const { return quire::row_bytes(dtype, columns()); }
  std::int64_t bytes() const { return rows() * row_bytes(); }
  const std::byte* row(std::int64_t r) const { return data + r * row_bytes(); }
  // Part i of the first dimension: expert i of a stack [experts, out, in] is the matrix [out, in].
  TensorView slice(std::int64_t i) const {
    QUIRE_CHECK(shape.rank() >= 2 && 0 <= i && i < shape[0]);
    Shape rest;
    for (int d = 1; d < shape.rank(); ++d) rest.push_back(shape[d]);
    return {data + i * (bytes() / shape[0]), dtype, rest, column_order};
  }
  // Rows [begin, end) of a matrix.
  TensorView slice_rows(std::int64_t begin, std::int64_t end) const {
    QUIRE_CHECK(shape.rank() == 2 && 0 <= begin && begin <= end && end <= shape[0]);
    return {row(begin), dtype, Shape{end - begin, shape[1]}, column_order};
  }
};

}  // namespace quire
