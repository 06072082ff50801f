// Rows of quantized tensors in the type that they are converted to, and which one that is. Pure
// functions; any thread.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/quant_blocks.h"
#include "weights/quant_tensor.h"

namespace quire {
namespace {

// Rows that are decoded together: words of AWQ and GPTQ hold one input of neighbouring outputs.
constexpr std::int64_t kTileRows = 32;

// The largest block of a type of this many sizes that divides a group; 0: none does.
std::int64_t block_for(std::int64_t group, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) {
    if (group % size == 0) return size;
  }
  return 0;
}

// ---- integers

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

// Inputs by their group; empty when a group has more or fewer than group_size.
std::vector<std::int32_t> sorted_inputs(const QuantTensor& t) {
  const std::vector<std::int32_t> groups = input_groups(t);
  std::vector<std::int32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  const auto group_of = [&](std::int32_t i) { return groups[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return group_of(a) < group_of(b); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (group_of(order[i]) != static_cast<std::int64_t>(i) / t.group_size) return {};
  }
  return order;
}

// Whether blocks with an f16 scale and a byte of zero point hold all values.
bool fits_blocks(const QuantTensor& t) {
  if (t.scales.dtype == DType::kF16 && t.zero_offset + (1 << t.bits) <= 256) return true;
  const std::int64_t rows = t.group_rows > 1 ? 1 : t.outputs();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t g = 0; g < t.groups(); ++g) {
      const float scale = read_scale(t, r, g);
      if (f16_to_f32(f32_to_f16(scale)) != scale || read_zero(t, r, g) > 255) return false;
    }
  }
  return true;
}

// Of a row's blocks: codes in the order of the columns, and scale and zero point of each.
struct RowBlocks {
  const std::uint8_t* codes;
  const std::uint16_t* scales;
  const std::uint8_t* zeros;
  std::int64_t count;
};

void put_nibbles(const std::uint8_t* q, int elements, std::uint8_t* out) {
  for (int g = 0; g < elements; g += 32) {
    for (int i = 0; i < 16; ++i)
      out[g / 2 + i] = static_cast<std::uint8_t>(q[g + i] | q[g + i + 16] << 4);
  }
}
template <class Block>
void put_head(std::uint16_t scale, std::uint8_t zero, Block* block) {
  block->d[0] = static_cast<std::uint8_t>(scale & 255);
  block->d[1] = static_cast<std::uint8_t>(scale >> 8);
  block->zero = zero;
}
template <int elements>
void write_blocks(const RowBlocks& row, BlockG4<elements>* out) {
  for (std::int64_t b = 0; b < row.count; ++b) {
    put_head(row.scales[b], row.zeros[b], &out[b]);
    put_nibbles(row.codes + b * elements, elements, out[b].qs);
  }
}
template <int elements>
void write_blocks(const RowBlocks& row, BlockG8<elements>* out) {
  for (std::int64_t b = 0; b < row.count; ++b) {
    put_head(row.scales[b], row.zeros[b], &out[b]);
    std::memcpy(out[b].qs, row.codes + b * elements, elements);
  }
}
void write_blocks(const RowBlocks& row, BlockQ4_0* out) {
  for (std::int64_t b = 0; b < row.count; ++b) {
    BlockQ4_0 block{row.scales[b], {}};
    put_nibbles(row.codes + b * 32, 32, block.qs);
    std::memcpy(&out[b], &block, sizeof(block));
  }
}
void write_blocks(const RowBlocks& row, BlockQ8_0* out) {
  for (std::int64_t b = 0; b < row.count; ++b) {
    BlockQ8_0 block{row.scales[b], {}};
    for (int i = 0; i < 32; ++i)
      block.qs[i] = static_cast<std::int8_t>(row.codes[b * 32 + i] - 128);
    std::memcpy(&out[b], &block, sizeof(block));
  }
}
template <class Block>
void write_row(const RowBlocks& row, std::byte* out) {
  write_blocks(row, reinterpret_cast<Block*>(out));
}

using WriteRow = void (*)(const RowBlocks&, std::byte*);
WriteRow writer_of(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return write_row<BlockQ4_0>;
    case DType::kQ8_0:
      return write_row<BlockQ8_0>;
    case DType::kG4_32:
      return write_row<BlockG4<32>>;
    case DType::kG4_64:
      return write_row<BlockG4<64>>;
    case DType::kG4_128:
      return write_row<BlockG4<128>>;
    case DType::kG4_256:
      return write_row<BlockG4<256>>;
    case DType::kG8_32:
      return write_row<BlockG8<32>>;
    case DType::kG8_64:
      return write_row<BlockG8<64>>;
    case DType::kG8_128:
      return write_row<BlockG8<128>>;
    case DType::kG8_256:
      return write_row<BlockG8<256>>;
    default:
      return nullptr;
  }
}

// Rows of integers one after the other, with scale and zero point of every `elements` columns.
template <class WriteTile>
void for_rows(const QuantTensor& t, std::int64_t begin, std::int64_t end, WriteTile write) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(kTileRows * t.inputs()));
  for (std::int64_t first = begin; first < end; first += kTileRows) {
    const std::int64_t last = std::min(end, first + kTileRows);
    read_codes(t, first, last, codes.data());
    for (std::int64_t r = first; r < last; ++r) write(r, codes.data() + (r - first) * t.inputs());
  }
}

void integers_to_blocks(const QuantTensor& t, std::int64_t begin, std::int64_t end,
                        std::byte* out) {
  const std::int64_t elements = dtype_info(t.dtype).block_elements;
  const std::int64_t blocks = t.inputs() / elements, bytes = row_bytes(t.dtype, t.inputs());
  const WriteRow write = writer_of(t.dtype);
  QUIRE_CHECK(write != nullptr, "{} as {}", t.name, dtype_name(t.dtype));
  std::vector<std::uint8_t> ordered(static_cast<std::size_t>(t.inputs()));
  std::vector<std::uint16_t> scales(static_cast<std::size_t>(blocks));
  std::vector<std::uint8_t> zeros(scales.size());
  for_rows(t, begin, end, [&](std::int64_t r, const std::uint8_t* codes) {
    if (!t.column_order.empty()) {
      for (std::size_t c = 0; c < ordered.size(); ++c) ordered[c] = codes[t.column_order[c]];
      codes = ordered.data();
    }
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t group = b * elements / t.group_size;
      scales[static_cast<std::size_t>(b)] = f32_to_f16(read_scale(t, r, group));
      zeros[static_cast<std::size_t>(b)] = static_cast<std::uint8_t>(read_zero(t, r, group));
    }
    write({codes, scales.data(), zeros.data(), blocks}, out + (r - begin) * bytes);
  });
}

void integers_to_f32(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) {
  const std::vector<std::int32_t> groups = input_groups(t);
  std::vector<float> row(groups.size());
  std::vector<float> scales(static_cast<std::size_t>(t.groups()));
  std::vector<std::int32_t> zeros(scales.size());
  for_rows(t, begin, end, [&](std::int64_t r, const std::uint8_t* codes) {
    for (std::size_t g = 0; g < scales.size(); ++g) {
      scales[g] = read_scale(t, r, static_cast<std::int64_t>(g));
      zeros[g] = read_zero(t, r, static_cast<std::int64_t>(g));
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto g = static_cast<std::size_t>(groups[i]);
      row[i] = static_cast<float>(codes[i] - zeros[g]) * scales[g];
    }
    std::memcpy(out + (r - begin) * t.inputs() * 4, row.data(), row.size() * 4);
  });
}

// ---- FP8

template <int elements>
void float8_to_blocks(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) {
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t i = 0; i < t.inputs(); i += elements) {
      BlockF8<elements> block;
      const float scale = read_scale(t, r, i / t.group_size);
      std::memcpy(block.d, &scale, sizeof(scale));
      std::memcpy(block.qs, t.codes.row(r) + i, elements);
      std::memcpy(out, &block, sizeof(block));
      out += sizeof(block);
    }
  }
}

void float8_to_f32(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) {
  std::vector<float> row(static_cast<std::size_t>(t.inputs()));
  for (std::int64_t r = begin; r < end; ++r) {
    read_float8(t, r, row.data());
    std::memcpy(out + (r - begin) * t.inputs() * 4, row.data(), row.size() * 4);
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

DType integer_dtype(const QuantTensor& t) {
  // One group: its scale may be repeated as often as is cheap.
  const std::int64_t group = t.groups() == 1 ? t.inputs() : t.group_size;
  const std::int64_t block = block_for(group, {256, 128, 64, 32});
  if (block == 0 || !fits_blocks(t)) return DType::kF32;
  if (block == 32 && t.zeros.empty()) return t.bits == 4 ? DType::kQ4_0 : DType::kQ8_0;
  const bool four = t.bits == 4;
  switch (block) {
    case 32:
      return four ? DType::kG4_32 : DType::kG8_32;
    case 64:
      return four ? DType::kG4_64 : DType::kG8_64;
    case 128:
      return four ? DType::kG4_128 : DType::kG8_128;
    default:
      return four ? DType::kG4_256 : DType::kG8_256;
  }
}

}  // namespace

void choose_dtype(QuantTensor* t) {
  if (t->layout == CodeLayout::kMxfp4) {
    t->dtype = DType::kMXFP4;
    return;
  }
  if (t->layout == CodeLayout::kFloat8) {
    // The last group may be cut off, but no block may.
    const std::int64_t group = t->groups() == 1 ? t->inputs() : t->group_size;
    const std::int64_t block =
        std::min(block_for(group, {128, 32}), block_for(t->inputs(), {128, 32}));
    t->dtype = block == 128 ? DType::kF8_128 : block == 32 ? DType::kF8_32 : DType::kF32;
    return;
  }
  t->dtype = integer_dtype(*t);
  if (t->order.empty() || t->dtype == DType::kF32) return;
  t->column_order = sorted_inputs(*t);
  if (t->column_order.empty()) t->dtype = DType::kF32;
}

void convert_rows(const QuantTensor& t, std::int64_t begin, std::int64_t end, std::byte* out) {
  if (t.layout == CodeLayout::kMxfp4) return mxfp4_blocks(t, begin, end, out);
  if (t.layout == CodeLayout::kFloat8) {
    if (t.dtype == DType::kF8_128) return float8_to_blocks<128>(t, begin, end, out);
    if (t.dtype == DType::kF8_32) return float8_to_blocks<32>(t, begin, end, out);
    return float8_to_f32(t, begin, end, out);
  }
  if (t.dtype == DType::kF32) return integers_to_f32(t, begin, end, out);
  integers_to_blocks(t, begin, end, out);
}

}  // namespace quire
