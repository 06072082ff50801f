// The numbers of quantized tensors: codes, scales and zero points from the words of each format,
// and whole rows in the type that a tensor is converted to. Pure functions; any thread.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "tensor/dequantize.h"
#include "tensor/half.h"
#include "tensor/quant_blocks.h"
#include "weights/quant_tensor.h"

namespace quire {
namespace {

// Rows that are decoded together: words of AWQ and GPTQ hold one input of neighbouring outputs.
constexpr std::int64_t kTileRows = 32;

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

// ---- rows as float32

// The group of each input.
std::vector<std::int32_t> input_groups(const QuantTensor& t) {
  std::vector<std::int32_t> groups(static_cast<std::size_t>(t.inputs()));
  if (!t.order.empty()) {
    std::memcpy(groups.data(), t.order.data, groups.size() * 4);
    return groups;
  }
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / t.group_size);
  return groups;
}

void integers_to_f32(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) {
  const std::int64_t inputs = t.inputs();
  const std::vector<std::int32_t> groups = input_groups(t);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(kTileRows * inputs));
  std::vector<float> row(static_cast<std::size_t>(inputs));
  std::vector<float> scales(static_cast<std::size_t>(t.groups()));
  std::vector<std::int32_t> zeros(scales.size());
  for (std::int64_t first = begin; first < end; first += kTileRows) {
    const std::int64_t last = std::min(end, first + kTileRows);
    read_codes(t, first, last, codes.data());
    for (std::int64_t r = first; r < last; ++r) {
      for (std::size_t g = 0; g < scales.size(); ++g) {
        scales[g] = read_scale(t, r, static_cast<std::int64_t>(g));
        zeros[g] = read_zero(t, r, static_cast<std::int64_t>(g));
      }
      const std::uint8_t* q = codes.data() + (r - first) * inputs;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const auto g = static_cast<std::size_t>(groups[i]);
        row[i] = static_cast<float>(q[i] - zeros[g]) * scales[g];
      }
      std::memcpy(out + (r - begin) * inputs * 4, row.data(), row.size() * 4);
    }
  }
}

void float8_to_f32(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) {
  const std::int64_t inputs = t.inputs();
  std::vector<float> row(static_cast<std::size_t>(inputs));
  for (std::int64_t r = begin; r < end; ++r) {
    dequantize_row(DType::kF8E4M3, t.codes.row(r), inputs, row.data());
    for (std::int64_t i = 0; i < inputs; ++i)
      row[static_cast<std::size_t>(i)] *= read_scale(t, r, i / t.group_size);
    std::memcpy(out + (r - begin) * inputs * 4, row.data(), row.size() * 4);
  }
}

// ---- MXFP4 as GGUF has it: element i in the low nibble of byte i, element i + 16 in the high one

void mxfp4_blocks(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) {
  const std::int64_t blocks = t.inputs() / 32;
  for (std::int64_t b = begin * blocks; b < end * blocks; ++b) {
    const auto* pairs = reinterpret_cast<const std::uint8_t*>(t.codes.data + 16 * b);
    const auto nibble = [&](int i) { return (pairs[i / 2] >> (i % 2 * 4)) & 15; };
    BlockMXFP4 block;
    block.e = static_cast<std::uint8_t>(t.scales.data[b]);
    for (int i = 0; i < 16; ++i)
      block.qs[i] = static_cast<std::uint8_t>(nibble(i) | nibble(i + 16) << 4);
    std::memcpy(out, &block, sizeof(block));
    out += sizeof(block);
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

void convert_rows(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) {
  if (t.layout == CodeLayout::kMxfp4) return mxfp4_blocks(t, begin, end, out);
  if (t.layout == CodeLayout::kFloat8) return float8_to_f32(t, begin, end, out);
  integers_to_f32(t, begin, end, out);
}

}  // namespace quire
