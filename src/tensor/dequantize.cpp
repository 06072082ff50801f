#include "tensor/dequantize.h"

#include <cstring>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/quant_blocks.h"

namespace quire {
namespace {

void block(const BlockQ8_0& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(b.qs[i]);
}
void block(const BlockQ4_0& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b.qs[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((b.qs[i] >> 4) - 8);
  }
}
void block(const BlockQ4_1& b, float* out) {
  const float d = f16_to_f32(b.d), m = f16_to_f32(b.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(b.qs[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(b.qs[i] >> 4) + m;
  }
}
// Element i (0..31) of a 5-bit block: a nibble and bit i of qh.
int five_bits(const std::uint8_t* qs, const std::uint8_t* qh, int i) {
  const int nibble = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
  return nibble | ((qh[i / 8] >> (i % 8)) & 1) << 4;
}
void block(const BlockQ5_0& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bits(b.qs, b.qh, i) - 16);
}
void block(const BlockQ5_1& b, float* out) {
  const float d = f16_to_f32(b.d), m = f16_to_f32(b.m);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bits(b.qs, b.qh, i)) + m;
}
// K-quants: sub-block j of 32 elements; 32 bytes hold sub-block 2c (low nibbles) and 2c+1 (high
// nibbles).
void block(const BlockQ4_K& b, float* out) {
  const float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin);
  for (int j = 0; j < 8; ++j) {
    std::uint8_t sc, m;
    get_scale_min_k4(j, b.scales, &sc, &m);
    const float scale = d * static_cast<float>(sc), min = dmin * static_cast<float>(m);
    for (int i = 0; i < 32; ++i) {
      const int q = (b.qs[j / 2 * 32 + i] >> (j % 2 * 4)) & 15;
      out[j * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}
void block(const BlockQ5_K& b, float* out) {
  const float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin);
  for (int j = 0; j < 8; ++j) {
    std::uint8_t sc, m;
    get_scale_min_k4(j, b.scales, &sc, &m);
    const float scale = d * static_cast<float>(sc), min = dmin * static_cast<float>(m);
    for (int i = 0; i < 32; ++i) {
      const int low = (b.qs[j / 2 * 32 + i] >> (j % 2 * 4)) & 15;
      const int q = low | ((b.qh[i] >> j) & 1) << 4;
      out[j * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}
// Two halves of 128; in each, element 32 r + i has its low nibble in ql[32 (r % 2) + i] (high half
// of the byte for r >= 2) and bits 4-5 in qh[i] >> 2r. One scale per 16.
void block(const BlockQ6_K& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int half = 0; half < 2; ++half) {
    for (int r = 0; r < 4; ++r) {
      for (int i = 0; i < 32; ++i) {
        const int low = (b.ql[half * 64 + r % 2 * 32 + i] >> (r / 2 * 4)) & 15;
        const int high = (b.qh[half * 32 + i] >> (2 * r)) & 3;
        const float scale = d * static_cast<float>(b.scales[half * 8 + r * 2 + i / 16]);
        out[half * 128 + r * 32 + i] = scale * static_cast<float>((low | high << 4) - 32);
      }
    }
  }
}

template <class Block>
void blocks(const std::byte* row, std::int64_t columns, std::int64_t elements, float* out) {
  for (std::int64_t i = 0; i < columns / elements; ++i) {
    Block b;
    std::memcpy(&b, row + i * static_cast<std::int64_t>(sizeof(Block)), sizeof(Block));
    block(b, out + i * elements);
  }
}

template <class Convert>
void halves(const std::byte* row, std::int64_t columns, float* out, Convert convert) {
  for (std::int64_t i = 0; i < columns; ++i) {
    std::uint16_t h;
    std::memcpy(&h, row + 2 * i, sizeof(h));
    out[i] = convert(h);
  }
}

}  // namespace

bool is_dequantizable(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

void dequantize_row(DType dtype, const std::byte* row, std::int64_t columns, float* out) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, row, static_cast<std::size_t>(columns) * sizeof(float));
      return;
    case DType::kF16:
      return halves(row, columns, out, f16_to_f32);
    case DType::kBF16:
      return halves(row, columns, out, bf16_to_f32);
    case DType::kQ8_0:
      return blocks<BlockQ8_0>(row, columns, 32, out);
    case DType::kQ4_0:
      return blocks<BlockQ4_0>(row, columns, 32, out);
    case DType::kQ4_1:
      return blocks<BlockQ4_1>(row, columns, 32, out);
    case DType::kQ5_0:
      return blocks<BlockQ5_0>(row, columns, 32, out);
    case DType::kQ5_1:
      return blocks<BlockQ5_1>(row, columns, 32, out);
    case DType::kQ4_K:
      return blocks<BlockQ4_K>(row, columns, 256, out);
    case DType::kQ5_K:
      return blocks<BlockQ5_K>(row, columns, 256, out);
    case DType::kQ6_K:
      return blocks<BlockQ6_K>(row, columns, 256, out);
    default:
      QUIRE_CHECK(false, "no dequantizer for {}", dtype_name(dtype));
  }
}

}  // namespace quire
