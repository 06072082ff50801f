#include "tensor/lossless.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tensor/dequantize.h"
#include "tensor/half.h"
#include "tensor/iq_grids.h"
#include "tensor/quant_blocks.h"

namespace quire {
namespace {

template <class Block>
Block read_block(const std::byte* row, std::int64_t index) {
  Block block;
  std::memcpy(&block, row + index * static_cast<std::int64_t>(sizeof(Block)), sizeof(Block));
  return block;
}
template <class Block>
void write_block(const Block& block, std::byte* out, std::int64_t index) {
  std::memcpy(out + index * static_cast<std::int64_t>(sizeof(Block)), &block, sizeof(Block));
}

// Q6_K's packing of values -32..31 (see dequantize.cpp).
void put_q6(std::array<int, 256> values, BlockQ6_K* out) {
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, r = e % 128 / 32, i = e % 32;
    const int q = values[static_cast<std::size_t>(e)] + 32;
    std::uint8_t& low = out->ql[half * 64 + r % 2 * 32 + i];
    std::uint8_t& high = out->qh[half * 32 + i];
    low = static_cast<std::uint8_t>(low | (q & 15) << (r / 2 * 4));
    high = static_cast<std::uint8_t>(high | (q >> 4) << (2 * r));
  }
}

BlockQ6_K convert(const BlockIQ3_S& b) {
  BlockQ6_K out{};
  out.d = b.d;
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = static_cast<std::int8_t>(1 + 2 * ((b.scales[j / 4] >> (j / 2 % 2 * 4)) & 15));
  }
  std::array<int, 256> values{};
  for (int e = 0; e < 256; ++e) {
    const int group = e / 4;
    const int number = b.qs[group] | ((b.qh[group / 8] >> (group % 8)) & 1) << 8;
    const int level = 2 * ((kIq3SGrid[number] >> (e % 4 * 3)) & 7) + 1;
    const bool minus = (b.signs[e / 8] >> (e % 8) & 1) != 0;
    values[static_cast<std::size_t>(e)] = minus ? -level : level;
  }
  put_q6(values, &out);
  return out;
}

void iq3_to_q6(const std::byte* row, std::int64_t columns, std::byte* out) {
  for (std::int64_t i = 0; i < columns / 256; ++i)
    write_block(convert(read_block<BlockIQ3_S>(row, i)), out, i);
}

// Ternary values are whole multiples of the block's d, found by decoding with d = 1.
template <class From>
void ternary_to_q4(DType stored, const std::byte* row, std::int64_t columns, std::byte* out) {
  std::array<float, 256> values{};
  for (std::int64_t i = 0; i < columns / 256; ++i) {
    auto from = read_block<From>(row, i);
    const std::uint16_t d = from.d;
    from.d = f32_to_f16(1.0f);
    std::array<std::byte, sizeof(From)> bytes{};
    write_block(from, bytes.data(), 0);
    dequantize_row(stored, bytes.data(), 256, values.data());
    for (int j = 0; j < 8; ++j) {
      BlockQ4_0 to{d, {}};
      const float* group = values.data() + 32 * j;
      for (int k = 0; k < 16; ++k) {
        const int low = static_cast<int>(group[k]) + 8, high = static_cast<int>(group[k + 16]) + 8;
        to.qs[k] = static_cast<std::uint8_t>(low | high << 4);
      }
      write_block(to, out, i * 8 + j);
    }
  }
}

// A block at a time through float32.
template <class To, class Round>
void through_f32(DType stored, const std::byte* row, std::int64_t columns, std::byte* out,
                 Round round) {
  const std::int64_t block = dtype_info(stored).block_elements;
  const std::int64_t step = block > 1 ? block : 64;
  std::vector<float> values(static_cast<std::size_t>(step));
  for (std::int64_t i = 0; i < columns; i += step) {
    const std::int64_t count = std::min(step, columns - i);
    dequantize_row(stored, row + row_bytes(stored, i), count, values.data());
    for (std::int64_t j = 0; j < count; ++j) {
      const To value = round(values[static_cast<std::size_t>(j)]);
      std::memcpy(out + (i + j) * static_cast<std::int64_t>(sizeof(To)), &value, sizeof(To));
    }
  }
}

}  // namespace

DType lossless_target(DType stored) {
  if (is_dequantizable(stored)) return stored;
  switch (stored) {
    case DType::kIQ3_S:
      return DType::kQ6_K;
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return DType::kQ4_0;
    case DType::kNVFP4:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return DType::kBF16;
    default:
      return DType::kF32;
  }
}

void convert_row(DType stored, const std::byte* row, std::int64_t columns, std::byte* out) {
  const DType target = lossless_target(stored);
  if (target == stored) {
    std::memcpy(out, row, static_cast<std::size_t>(row_bytes(stored, columns)));
    return;
  }
  switch (stored) {
    case DType::kIQ3_S:
      return iq3_to_q6(row, columns, out);
    case DType::kTQ1_0:
      return ternary_to_q4<BlockTQ1_0>(stored, row, columns, out);
    case DType::kTQ2_0:
      return ternary_to_q4<BlockTQ2_0>(stored, row, columns, out);
    default:
      break;
  }
  if (target == DType::kBF16)
    return through_f32<std::uint16_t>(stored, row, columns, out, f32_to_bf16);
  through_f32<float>(stored, row, columns, out, [](float value) { return value; });
}

TensorView as_lossless(const TensorView& matrix, Buffer* storage) {
  const DType target = lossless_target(matrix.dtype);
  if (target == matrix.dtype) return matrix;
  TensorView converted{nullptr, target, matrix.shape, matrix.column_order};
  *storage = Buffer(static_cast<std::size_t>(converted.bytes()));
  converted.data = storage->data();
  for (std::int64_t r = 0; r < matrix.rows(); ++r) {
    convert_row(matrix.dtype, matrix.row(r), matrix.columns(),
                storage->data() + r * converted.row_bytes());
  }
  return converted;
}

}  // namespace quire
