// The numbers of quantized tensors: codes, scales and zero points from the words of each format.
// Pure functions; any thread.
#include <cstring>

#include "base/check.h"
#include "tensor/dequantize.h"
#include "tensor/half.h"
#include "weights/quant_tensor.h"

namespace quire {
namespace {

std::uint32_t word_at(const TensorView& view, std::int64_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, view.data + 4 * index, 4);
  return word;
}
// Field i of the words from `first` on.
std::uint32_t field(const TensorView& view, std::int64_t first, std::int64_t i, int bits) {
  const std::int64_t fields = 32 / bits;
  return (word_at(view, first + i / fields) >> (i % fields * bits)) & ((1u << bits) - 1);
}
// The field of output 8 c + j in AWQ's word c.
constexpr int kAwqField[8] = {0, 4, 1, 5, 2, 6, 3, 7};
std::uint32_t awq_field(std::uint32_t word, std::int64_t output) {
  return (word >> (4 * kAwqField[output % 8])) & 15u;
}

float float_at(const TensorView& view, std::int64_t index) {
  if (view.dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, view.data + 4 * index, 4);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, view.data + 2 * index, 2);
  return view.dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
}

void read_awq(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  const std::int64_t inputs = t.inputs(), words = t.outputs() / 8;
  for (std::int64_t i = 0; i < inputs; ++i) {
    for (std::int64_t r = begin; r < end; ++r) {
      out[(r - begin) * inputs + i] =
          static_cast<std::uint8_t>(awq_field(word_at(t.codes, i * words + r / 8), r));
    }
  }
}

template <int bits>
void read_gptq(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  constexpr int kFields = 32 / bits;
  const std::int64_t inputs = t.inputs(), outputs = t.outputs();
  for (std::int64_t w = 0; w < inputs / kFields; ++w) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::uint32_t word = word_at(t.codes, w * outputs + r);
      std::uint8_t* to = out + (r - begin) * inputs + w * kFields;
      for (int f = 0; f < kFields; ++f)
        to[f] = static_cast<std::uint8_t>((word >> (f * bits)) & ((1u << bits) - 1));
    }
  }
}

void read_rows(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  const std::int64_t inputs = t.inputs(), words = t.codes.columns();
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t i = 0; i < inputs; ++i)
      *out++ = static_cast<std::uint8_t>(field(t.codes, r * words, i, t.bits));
  }
}

}  // namespace

void read_codes(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  switch (t.layout) {
    case CodeLayout::kAwq:
      return read_awq(t, begin, end, out);
    case CodeLayout::kGptq:
      return t.bits == 4 ? read_gptq<4>(t, begin, end, out) : read_gptq<8>(t, begin, end, out);
    case CodeLayout::kRows:
      return read_rows(t, begin, end, out);
    case CodeLayout::kInt8: {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(t.codes.row(begin));
      const std::int64_t count = (end - begin) * t.inputs();
      for (std::int64_t i = 0; i < count; ++i) out[i] = codes[i] ^ 0x80;
      return;
    }
    case CodeLayout::kFloat8:
    case CodeLayout::kMxfp4:
      break;
  }
  QUIRE_CHECK(false, "{} has no integer codes", t.name);
}

float read_scale(const QuantTensor& t, std::int64_t row, std::int64_t group) {
  if (t.layout == CodeLayout::kAwq || t.layout == CodeLayout::kGptq)
    return float_at(t.scales, group * t.outputs() + row);
  return float_at(t.scales, row / t.group_rows * t.groups() + group);
}

std::int32_t read_zero(const QuantTensor& t, std::int64_t row, std::int64_t group) {
  if (t.zeros.empty()) return 1 << (t.bits - 1);
  const std::int64_t fields = 32 / t.bits;
  switch (t.layout) {
    case CodeLayout::kAwq:
      return static_cast<std::int32_t>(
          awq_field(word_at(t.zeros, group * (t.outputs() / 8) + row / 8), row));
    case CodeLayout::kGptq:
      return static_cast<std::int32_t>(
                 field(t.zeros, group * (t.outputs() / fields), row, t.bits)) +
             t.zero_offset;
    case CodeLayout::kRows: {
      if (t.group_rows > 1) return static_cast<std::int32_t>(field(t.zeros, 0, 0, t.bits));
      const std::uint32_t word = word_at(t.zeros, row / fields * t.groups() + group);
      return static_cast<std::int32_t>((word >> (row % fields * t.bits)) & ((1u << t.bits) - 1));
    }
    default: {
      const auto at = row / t.group_rows * t.groups() + group;
      return static_cast<std::int32_t>(static_cast<std::uint8_t>(t.zeros.data[at])) ^ 0x80;
    }
  }
}

void read_float8(const QuantTensor& t, std::int64_t row, float* out) {
  dequantize_row(DType::kF8E4M3, t.codes.row(row), t.inputs(), out);
  for (std::int64_t i = 0; i < t.inputs(); ++i) out[i] *= read_scale(t, row, i / t.group_size);
}

}  // namespace quire
