// One quantized matrix of a checkpoint, or a stack of experts' matrices: where its parts lie in the
// file, checked against each other, and what its numbers are. Formats: docs/quantization.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tensor/buffer.h"
#include "tensor/tensor_view.h"
#include "weights/quant_config.h"

namespace quire {

// How codes lie in their tensor. Words are 32 bits, fields of `bits` bits from the lowest.
enum class CodeLayout : std::uint8_t {
  kAwq,     // words [in, out / 8]: output 8 c + j is field (0, 4, 1, 5, 2, 6, 3, 7)[j] of word c
  kGptq,    // words [in * bits / 32, out]: inputs follow each other
  kRows,    // words [out, in * bits / 32]: inputs follow each other
  kInt8,    // signed bytes [out, in]
  kFloat8,  // float8_e4m3 [out, in]
  kMxfp4,   // [experts, out, in / 32, 16] and exponents [experts, out, in / 32]
};

struct QuantTensor {
  CodeLayout layout = CodeLayout::kGptq;
  std::string name;  // as a plain checkpoint would have it: "….q_proj.weight"
  Shape shape;       // [out, in], or [experts, out, in]
  std::int32_t bits = 4;
  std::int64_t group_size = 0;   // inputs that share a scale, at most all of them
  std::int64_t group_rows = 1;   // outputs that share a scale (FP8), at most all of them
  std::int32_t zero_offset = 0;  // what is added to a stored zero point
  TensorView codes, scales;
  TensorView zeros;               // empty: 2^(bits - 1)
  TensorView order;               // I32 [in]: the group of each input; empty: i / group_size
  std::vector<TensorView> parts;  // all tensors of the file that this one is made of
  // What it is converted to, and the order of the columns there (of activation order; empty: as
  // they are); see choose_dtype.
  DType dtype = DType::kF32;
  std::vector<std::int32_t> column_order;

  std::int64_t outputs() const { return shape[shape.rank() - 2]; }
  std::int64_t inputs() const { return shape[shape.rank() - 1]; }
  std::int64_t groups() const { return (inputs() + group_size - 1) / group_size; }
};

using TensorTable = std::unordered_map<std::string, TensorView>;

// Takes the parts of every quantized tensor out of *table and returns what they are together, with
// the names of a plain checkpoint. Errors name the tensor, what it has and what is needed.
Result<std::vector<QuantTensor>> take_quant_tensors(const QuantConfig& config, TensorTable* table);

// Sets dtype and column_order: the smallest type that holds every value exactly.
//   Q4_0, Q8_0     integers without zero points, groups of 32 (or an odd multiple)
//   G4_*, G8_*     integers, scales that are exact in f16, zero points up to 255
//   F8_*           FP8
//   MXFP4          MXFP4
//   F32            all else, e.g. groups that are no multiple of 32
void choose_dtype(QuantTensor* tensor);

// ---- numbers (quant_decode.cpp); rows of a stack are counted through all experts

// Codes of rows [begin, end) as unsigned integers (a signed code plus 2^(bits - 1)).
// out: [end - begin, inputs]
void read_codes(const QuantTensor& tensor, std::int64_t begin, std::int64_t end, std::uint8_t* out);
float read_scale(const QuantTensor& tensor, std::int64_t row, std::int64_t group);
std::int32_t read_zero(const QuantTensor& tensor, std::int64_t row, std::int64_t group);
// Codes of float8_e4m3 times their scale, in float32. out: [inputs]
void read_float8(const QuantTensor& tensor, std::int64_t row, float* out);
// Rows [begin, end) in tensor.dtype (quant_convert.cpp).  out: at row `begin`
void convert_rows(const QuantTensor& tensor, std::int64_t begin, std::int64_t end, std::byte* out);

}  // namespace quire
