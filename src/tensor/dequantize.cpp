#include "tensor/dequantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/check.h"
#include "tensor/dequantize_blocks.h"
#include "tensor/half.h"

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
        const int sixteen = half * 8 + r * 2 + i / 16;
        const float scale = d * static_cast<float>(b.scales[sixteen]);
        out[half * 128 + r * 32 + i] = scale * static_cast<float>((low | high << 4) - 32);
      }
    }
  }
}

// A half of 128 elements: element 32 r + i in bits 2r and 2r + 1 of qs[32 half + i].
int two_bits(const std::uint8_t* qs, int element) {
  return (qs[element / 128 * 32 + element % 32] >> (element % 128 / 32 * 2)) & 3;
}
void block(const BlockQ2_K& b, float* out) {
  const float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(b.scales[i / 16] & 15);
    const float min = dmin * static_cast<float>(b.scales[i / 16] >> 4);
    out[i] = scale * static_cast<float>(two_bits(b.qs, i)) - min;
  }
}
// Scale j: the low four bits in nibbles of scales[0..7], the high two in scales[8..11].
void block(const BlockQ3_K& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 256; ++i) {
    const int j = i / 16;
    const int low = (b.scales[j % 8] >> (j / 8 * 4)) & 15;
    const int high = (b.scales[8 + j % 4] >> (j / 4 * 2)) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    const int bit = (b.hmask[i % 32] >> (i / 32)) & 1;
    out[i] = scale * static_cast<float>((two_bits(b.qs, i) | bit << 2) - 4);
  }
}

template <class Block>
float f16_scale(const Block& b) {
  return f16_to_f32(static_cast<std::uint16_t>(b.d[0] | b.d[1] << 8));
}
// Exact: at most 19 significant bits.
template <int elements>
void block(const BlockG4<elements>& b, float* out) {
  const float d = f16_scale(b);
  for (int i = 0; i < elements; ++i) {
    const int q = (b.qs[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4)) & 15;
    out[i] = d * static_cast<float>(q - b.zero);
  }
}
template <int elements>
void block(const BlockG8<elements>& b, float* out) {
  const float d = f16_scale(b);
  for (int i = 0; i < elements; ++i) out[i] = d * static_cast<float>(b.qs[i] - b.zero);
}

// Eight-bit floats: E4M3 (no infinity, 0x7f is NaN) and E5M2 (the upper half of an F16).
float e4m3_to_f32(std::uint8_t b) {
  const int exponent = (b >> 3) & 15, mantissa = b & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (b & 0x80) != 0 ? -magnitude : magnitude;
}
template <int elements>
void block(const BlockF8<elements>& b, float* out) {
  float d = 0;
  std::memcpy(&d, b.d, sizeof(d));
  for (int i = 0; i < elements; ++i) out[i] = e4m3_to_f32(b.qs[i]) * d;
}

template <class Block, std::int64_t elements>
void blocks(const std::byte* row, std::int64_t columns, float* out) {
  for (std::int64_t i = 0; i < columns / elements; ++i) {
    Block b;
    std::memcpy(&b, row + i * static_cast<std::int64_t>(sizeof(Block)), sizeof(Block));
    block(b, out + i * elements);
  }
}

template <float (*convert)(std::uint16_t)>
void halves(const std::byte* row, std::int64_t columns, float* out) {
  for (std::int64_t i = 0; i < columns; ++i) {
    std::uint16_t h;
    std::memcpy(&h, row + 2 * i, sizeof(h));
    out[i] = convert(h);
  }
}

void floats(const std::byte* row, std::int64_t columns, float* out) {
  std::memcpy(out, row, static_cast<std::size_t>(columns) * sizeof(float));
}

float e5m2_to_f32(std::uint8_t b) { return f16_to_f32(static_cast<std::uint16_t>(b << 8)); }

template <float (*convert)(std::uint8_t)>
void bytes(const std::byte* row, std::int64_t columns, float* out) {
  for (std::int64_t i = 0; i < columns; ++i) out[i] = convert(static_cast<std::uint8_t>(row[i]));
}

struct Reader {
  DType dtype;
  void (*read)(const std::byte* row, std::int64_t columns, float* out);
};
constexpr Reader kReaders[] = {
    {DType::kF32, floats},
    {DType::kF16, halves<f16_to_f32>},
    {DType::kBF16, halves<bf16_to_f32>},
    {DType::kF8E4M3, bytes<e4m3_to_f32>},
    {DType::kF8E5M2, bytes<e5m2_to_f32>},
    {DType::kQ8_0, blocks<BlockQ8_0, 32>},
    {DType::kQ4_0, blocks<BlockQ4_0, 32>},
    {DType::kQ4_1, blocks<BlockQ4_1, 32>},
    {DType::kQ5_0, blocks<BlockQ5_0, 32>},
    {DType::kQ5_1, blocks<BlockQ5_1, 32>},
    {DType::kQ2_K, blocks<BlockQ2_K, 256>},
    {DType::kQ3_K, blocks<BlockQ3_K, 256>},
    {DType::kQ4_K, blocks<BlockQ4_K, 256>},
    {DType::kQ5_K, blocks<BlockQ5_K, 256>},
    {DType::kQ6_K, blocks<BlockQ6_K, 256>},
    {DType::kIQ4_NL, blocks<BlockIQ4_NL, 32>},
    {DType::kIQ4_XS, blocks<BlockIQ4_XS, 256>},
    {DType::kMXFP4, blocks<BlockMXFP4, 32>},
    {DType::kNVFP4, blocks<BlockNVFP4, 64>},
    {DType::kTQ1_0, blocks<BlockTQ1_0, 256>},
    {DType::kTQ2_0, blocks<BlockTQ2_0, 256>},
    {DType::kIQ1_S, blocks<BlockIQ1_S, 256>},
    {DType::kIQ1_M, blocks<BlockIQ1_M, 256>},
    {DType::kIQ2_XXS, blocks<BlockIQ2_XXS, 256>},
    {DType::kIQ2_XS, blocks<BlockIQ2_XS, 256>},
    {DType::kIQ2_S, blocks<BlockIQ2_S, 256>},
    {DType::kIQ3_XXS, blocks<BlockIQ3_XXS, 256>},
    {DType::kIQ3_S, blocks<BlockIQ3_S, 256>},
    {DType::kG4_32, blocks<BlockG4<32>, 32>},
    {DType::kG4_64, blocks<BlockG4<64>, 64>},
    {DType::kG4_128, blocks<BlockG4<128>, 128>},
    {DType::kG4_256, blocks<BlockG4<256>, 256>},
    {DType::kG8_32, blocks<BlockG8<32>, 32>},
    {DType::kG8_64, blocks<BlockG8<64>, 64>},
    {DType::kG8_128, blocks<BlockG8<128>, 128>},
    {DType::kG8_256, blocks<BlockG8<256>, 256>},
    {DType::kF8_32, blocks<BlockF8<32>, 32>},
    {DType::kF8_128, blocks<BlockF8<128>, 128>},
};

const Reader* find_reader(DType dtype) {
  const auto* found = std::find_if(std::begin(kReaders), std::end(kReaders),
                                   [&](const Reader& reader) { return reader.dtype == dtype; });
  return found == std::end(kReaders) ? nullptr : found;
}

}  // namespace

bool is_readable(DType dtype) { return find_reader(dtype) != nullptr; }

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
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kMXFP4:
    case DType::kG4_32:
    case DType::kG4_64:
    case DType::kG4_128:
    case DType::kG4_256:
    case DType::kG8_32:
    case DType::kG8_64:
    case DType::kG8_128:
    case DType::kG8_256:
    case DType::kF8_32:
    case DType::kF8_128:
      return true;
    default:
      return false;
  }
}

void dequantize_row(DType dtype, const std::byte* row, std::int64_t columns, float* out) {
  const Reader* reader = find_reader(dtype);
  QUIRE_CHECK(reader != nullptr, "no dequantizer for {}", dtype_name(dtype));
  reader->read(row, columns, out);
}

}  // namespace quire
