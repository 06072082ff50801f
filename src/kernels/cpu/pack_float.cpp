#include "kernels/cpu/pack_float.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tensor/half.h"

namespace quire {
namespace {

using Byte = std::uint8_t;
using Words = std::uint32_t __attribute__((vector_size(16)));  // compiler's vectors: any CPU

constexpr int kWords = 16;  // 32-bit words of a row that one transposition takes: a cache line
constexpr int kMaxTileK = 32;

Words load_words(const Byte* p) {
  Words words;
  std::memcpy(&words, p, sizeof words);
  return words;
}

// Sixteen rows of 16 words, `stride` bytes apart (row i at rows + i * stride), turned: column c
// goes to out[c], 64 bytes.
void transpose_words(const Byte* rows, std::int64_t stride, Byte* const out[kWords]) {
  for (int c = 0; c < kWords; c += 4) {
    for (int r = 0; r < kStrip; r += 4) {
      const Byte* const from = rows + r * stride + 4 * c;
      const Words a = load_words(from), b = load_words(from + stride);
      const Words d = load_words(from + 2 * stride), e = load_words(from + 3 * stride);
      const Words ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Words ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Words de_low = __builtin_shufflevector(d, e, 0, 4, 1, 5);
      const Words de_high = __builtin_shufflevector(d, e, 2, 6, 3, 7);
      const Words columns[4] = {__builtin_shufflevector(ab_low, de_low, 0, 1, 4, 5),
                                __builtin_shufflevector(ab_low, de_low, 2, 3, 6, 7),
                                __builtin_shufflevector(ab_high, de_high, 0, 1, 4, 5),
                                __builtin_shufflevector(ab_high, de_high, 2, 3, 6, 7)};
      for (int i = 0; i < 4; ++i) std::memcpy(out[c + i] + 4 * r, &columns[i], sizeof(Words));
    }
  }
}

// f16 and bf16 by masks in place of branches, so that the loop below runs in vectors. Subnormals by
// an integer, because a thread may take subnormal f32 for zero.
float widen_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  const std::uint32_t is_small = 0u - static_cast<std::uint32_t>(magnitude < 0x400u);
  const std::uint32_t is_special = 0u - static_cast<std::uint32_t>(magnitude >= 0x7c00u);
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24f);
  const std::uint32_t normal = (magnitude << 13) + (112u << 23) + (is_special & 112u << 23);
  return std::bit_cast<float>((small & is_small) | (normal & ~is_small) | sign);
}
std::uint16_t round_bf16(float f) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t is_nan = 0u - static_cast<std::uint32_t>((u & 0x7fffffffu) > 0x7f800000u);
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = u >> 16 | 0x40u;
  return static_cast<std::uint16_t>((nan & is_nan) | (rounded & ~is_nan));
}

template <DType kStored>
float value_of(const Byte* row, std::int64_t k) {
  if constexpr (kStored == DType::kF32) {
    float f;
    std::memcpy(&f, row + 4 * k, 4);
    return f;
  } else {
    std::uint16_t half;
    std::memcpy(&half, row + 2 * k, 2);
    return kStored == DType::kF16 ? widen_f16(half) : bf16_to_f32(half);
  }
}

template <PackedKind kKind, DType kStored>
void convert_all(const Byte* row, std::int64_t count, Byte* out) {
  for (std::int64_t k = 0; k < count; ++k) {
    const float f = value_of<kStored>(row, k);
    if constexpr (kKind == PackedKind::kF32) {
      std::memcpy(out + 4 * k, &f, 4);
    } else {
      const std::uint16_t half = kKind == PackedKind::kF16 ? f32_to_f16(f) : round_bf16(f);
      std::memcpy(out + 2 * k, &half, 2);
    }
  }
}

// Elements [0, count) of a row in the packed kind's type, which is another than the stored one.
void convert(PackedKind kind, DType stored, const Byte* row, std::int64_t count, Byte* out) {
  if (kind == PackedKind::kBF16)
    return stored == DType::kF32 ? convert_all<PackedKind::kBF16, DType::kF32>(row, count, out)
                                 : convert_all<PackedKind::kBF16, DType::kF16>(row, count, out);
  if (kind == PackedKind::kF16)
    return stored == DType::kF32 ? convert_all<PackedKind::kF16, DType::kF32>(row, count, out)
                                 : convert_all<PackedKind::kF16, DType::kBF16>(row, count, out);
  return stored == DType::kF16 ? convert_all<PackedKind::kF32, DType::kF16>(row, count, out)
                               : convert_all<PackedKind::kF32, DType::kBF16>(row, count, out);
}

bool same_type(PackedKind kind, DType stored) {
  return kind == PackedKind::kF32   ? stored == DType::kF32
         : kind == PackedKind::kF16 ? stored == DType::kF16
                                    : stored == DType::kBF16;
}

// Sixteen lanes of `units` units (2 k each) from a tile of rows in the packed kind's type.
void put_units(PackedKind kind, const Byte* tile, std::int64_t stride, std::int64_t units,
               Byte* out, std::int64_t unit_stride) {
  if (kind == PackedKind::kBF16 && units == kWords) {
    Byte* lines[kWords];
    for (int u = 0; u < kWords; ++u) lines[u] = out + u * unit_stride;
    return transpose_words(tile, stride, lines);
  }
  alignas(64) Byte turned[kWords * 64];
  Byte* lines[kWords];
  for (int u = 0; u < kWords; ++u) lines[u] = turned + 64 * u;
  const int words_per_unit = kind == PackedKind::kF32 ? 2 : 1;
  for (std::int64_t word = 0; word < units * words_per_unit; word += kWords) {
    transpose_words(tile + 4 * word, stride, lines);
    const std::int64_t count = std::min<std::int64_t>(kWords, units * words_per_unit - word);
    for (std::int64_t w = 0; w < count; ++w) {
      const std::int64_t at = word + w;
      Byte* const unit = out + at / words_per_unit * unit_stride + at % words_per_unit * 64;
      if (kind != PackedKind::kF16) {
        std::memcpy(unit, lines[w], 64);
        continue;
      }
      for (int lane = 0; lane < kStrip; ++lane) {  // [lane][2 k] to [2 k][lane]
        std::memcpy(unit + 2 * lane, lines[w] + 4 * lane, 2);
        std::memcpy(unit + 32 + 2 * lane, lines[w] + 4 * lane + 2, 2);
      }
    }
  }
}

}  // namespace

void pack_float_panel(const PackedShape& shape, DType stored, const Byte* rows,
                      std::int64_t row_bytes, std::int64_t first, std::int64_t strips, Byte* out) {
  const std::int64_t unit_bytes = packed_kind_info(shape.kind).unit_bytes;
  const std::int64_t unit_stride = strips * unit_bytes;
  const std::int64_t source_bytes = stored == DType::kF32 ? 4 : 2;
  const std::int64_t element = shape.kind == PackedKind::kF32 ? 4 : 2;
  alignas(64) Byte copy[kStrip * kMaxTileK * 4];
  // Strips inside: what is written follows, and each line that is read is used up at once.
  for (std::int64_t k = 0; k < shape.k; k += kMaxTileK) {
    const std::int64_t count = std::min<std::int64_t>(kMaxTileK, shape.k - k);
    for (std::int64_t s = 0; s < strips; ++s) {
      const std::int64_t n = (first + s) * kStrip;
      const std::int64_t lanes = std::min<std::int64_t>(kStrip, shape.n - n);
      const Byte* tile = rows + n * row_bytes + k * source_bytes;
      std::int64_t stride = row_bytes;
      if (lanes < kStrip || count < kMaxTileK || !same_type(shape.kind, stored)) {
        stride = kMaxTileK * element;
        if (lanes < kStrip || count < kMaxTileK) std::memset(copy, 0, sizeof copy);
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
          Byte* const to = copy + lane * stride;
          const Byte* const from = tile + lane * row_bytes;
          if (same_type(shape.kind, stored)) {
            std::memcpy(to, from, static_cast<std::size_t>(count * element));
          } else {
            convert(shape.kind, stored, from, count, to);
          }
        }
        tile = copy;
      }
      put_units(shape.kind, tile, stride, (count + 1) / 2,
                out + k / 2 * unit_stride + s * unit_bytes, unit_stride);
    }
  }
}

}  // namespace quire
