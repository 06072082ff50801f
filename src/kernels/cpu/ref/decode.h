// Reads packed weights one number at a time, as packed.h describes them. Slow on purpose.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/packed.h"
#include "tensor/half.h"

namespace quire::ref {

// 32 consecutive k of one output channel, p = k / (32 / parts): w[k] = scale[p] * code[k] + min[p].
struct Group {
  std::int32_t code[32];  // q - zero
  float scale[2];
  float min[2];
  int parts;  // scales and minimums: 2 for kQ2K, kQ3K and kQ6K
};

inline std::uint16_t read_half(const std::uint8_t* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return h;
}

inline bool has_min(PackedKind kind) {
  return kind == PackedKind::kQ2K || kind == PackedKind::kQ4Min || kind == PackedKind::kQ5Min ||
         kind == PackedKind::kQ4K || kind == PackedKind::kQ5K || is_g8_kind(kind);
}

// A 4-bit code of a group.
inline int nibble(const std::uint8_t* group, int k, int lane) {
  const int pair = group[k / 4 % 4 * 64 + lane * 4 + k % 4];
  return k < 16 ? pair & 15 : pair >> 4;
}
// Kinds with a scale and a zero point per unit.
inline Group decode_zero_point_group(PackedKind kind, const std::uint8_t* unit, int g, int lane) {
  Group out{};
  out.parts = 1;
  out.scale[0] = f16_to_f32(read_half(unit + 2 * lane));
  const int zero = unit[32 + lane];
  if (is_g4_kind(kind)) {
    for (int k = 0; k < 32; ++k) out.code[k] = nibble(unit + 48 + g * 256, k, lane) - zero;
  } else {
    const std::uint8_t* codes = unit + 48 + g * 512;
    for (int k = 0; k < 32; ++k) out.code[k] = codes[k / 4 * 64 + lane * 4 + k % 4] - 128;
    out.min[0] = out.scale[0] * static_cast<float>(128 - zero);
  }
  return out;
}
inline Group decode_mx4_group(const std::uint8_t* unit, int lane) {
  constexpr int kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  Group out{};
  out.parts = 1;
  for (int k = 0; k < 32; ++k) out.code[k] = kValues[nibble(unit, k, lane)];
  const std::uint32_t bits = (unit[256 + lane] - 1u) << 23;
  std::memcpy(&out.scale[0], &bits, 4);
  return out;
}

inline Group decode_iq4_group(PackedKind kind, const std::uint8_t* unit, int g, int lane) {
  constexpr int kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
  Group out{};
  out.parts = 1;
  const bool two_level = kind == PackedKind::kIq4Xs;
  const std::uint8_t* group = two_level ? unit + 32 + g * 272 : unit;
  for (int k = 0; k < 32; ++k) out.code[k] = kLevels[nibble(group, k, lane)];
  out.scale[0] = f16_to_f32(read_half((two_level ? unit : group + 256) + 2 * lane));
  if (two_level) out.scale[0] *= static_cast<float>(static_cast<std::int8_t>(group[256 + lane]));
  return out;
}

inline std::uint32_t read_word(const std::uint8_t* p) {
  std::uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}
// Kinds of a scale per 16 k, sixteen in the unit's head.
inline Group decode_pairs_group(PackedKind kind, const std::uint8_t* unit, int g, int lane) {
  const bool three = kind == PackedKind::kQ3K;
  const std::uint8_t* group = unit + (three ? 224 + g * 192 : 320 + g * 128);
  Group out{};
  out.parts = 2;
  for (int k = 0; k < 32; ++k) {
    const int j = k / 4, at = lane * 4 + k % 4;
    out.code[k] = (group[j / 4 * 64 + at] >> (2 * (j % 4))) & 3;
    if (three) out.code[k] += (((group[128 + at] >> j) & 1) << 2) - 4;
  }
  const float d = f16_to_f32(read_half(unit + 2 * lane));
  for (int part = 0; part < 2; ++part) {
    const int s = 2 * g + part;
    const auto four_bits = [&](const std::uint8_t* words) {
      return static_cast<int>(read_word(words + s / 8 * 64 + 4 * lane) >> (4 * (s % 8)) & 15u);
    };
    if (three) {
      const int high = static_cast<int>(read_word(unit + 160 + 4 * lane) >> (2 * s) & 3u);
      out.scale[part] = d * static_cast<float>((four_bits(unit + 32) | high << 4) - 32);
    } else {
      const float dmin = f16_to_f32(read_half(unit + 32 + 2 * lane));
      out.scale[part] = d * static_cast<float>(four_bits(unit + 64));
      out.min[part] = -(dmin * static_cast<float>(four_bits(unit + 192)));
    }
  }
  return out;
}

// unit: the packed unit of the channel's strip; g: the group's number inside the unit.
inline Group decode_group(PackedKind kind, const std::uint8_t* unit, int g, int lane) {
  if (kind == PackedKind::kMx4) return decode_mx4_group(unit, lane);
  if (kind == PackedKind::kQ2K || kind == PackedKind::kQ3K)
    return decode_pairs_group(kind, unit, g, lane);
  if (kind == PackedKind::kIq4Nl || kind == PackedKind::kIq4Xs)
    return decode_iq4_group(kind, unit, g, lane);
  if (is_g4_kind(kind) || is_g8_kind(kind)) return decode_zero_point_group(kind, unit, g, lane);
  Group out{};
  out.parts = kind == PackedKind::kQ6K ? 2 : 1;
  const bool two_level = packed_kind_info(kind).unit_k == 256;
  const int head = two_level ? (kind == PackedKind::kQ6K ? 32 : 64) : 0;
  const int group_bytes = two_level ? (packed_kind_info(kind).unit_bytes - head) / 8 : 0;
  const std::uint8_t* group = unit + head + g * group_bytes;
  if (kind == PackedKind::kQ8) {
    for (int k = 0; k < 32; ++k) out.code[k] = group[k / 4 * 64 + lane * 4 + k % 4] - 128;
    out.scale[0] = f16_to_f32(read_half(group + 512 + 2 * lane));
    return out;
  }
  const bool five =
      kind == PackedKind::kQ5Sym || kind == PackedKind::kQ5Min || kind == PackedKind::kQ5K;
  int zero = 0;
  if (kind == PackedKind::kQ4Sym) zero = 8;
  if (kind == PackedKind::kQ5Sym) zero = 16;
  if (kind == PackedKind::kQ6K) zero = 32;
  for (int k = 0; k < 32; ++k) {
    const int j = k / 4, at = lane * 4 + k % 4;
    const int pair = group[j % 4 * 64 + at];
    int q = j < 4 ? pair & 15 : pair >> 4;
    if (five) q |= ((group[256 + at] >> j) & 1) << 4;
    if (kind == PackedKind::kQ6K) q |= ((group[256 + j / 4 * 64 + at] >> (2 * (j % 4))) & 3) << 4;
    out.code[k] = q - zero;
  }
  const std::uint8_t* scales = group + 256 + (five ? 64 : 0);
  if (kind == PackedKind::kQ6K) {
    const float d = f16_to_f32(read_half(unit + 2 * lane));
    for (int part = 0; part < 2; ++part)
      out.scale[part] =
          d * static_cast<float>(static_cast<std::int8_t>(group[384 + part * 16 + lane]));
  } else if (two_level) {
    out.scale[0] = f16_to_f32(read_half(unit + 2 * lane)) * static_cast<float>(scales[lane]);
    out.min[0] =
        -(f16_to_f32(read_half(unit + 32 + 2 * lane)) * static_cast<float>(scales[16 + lane]));
  } else {
    out.scale[0] = f16_to_f32(read_half(scales + 2 * lane));
    if (has_min(kind)) out.min[0] = f16_to_f32(read_half(scales + 32 + 2 * lane));
  }
  return out;
}

// The f32 value of w[k] inside a group: what dequantize_row gives.
inline float group_value(PackedKind kind, const Group& group, int k) {
  const float product = group.scale[k / (32 / group.parts)] * static_cast<float>(group.code[k]);
  return has_min(kind) ? product + group.min[k / (32 / group.parts)] : product;
}

inline float e4m3_to_f32(std::uint8_t code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

// A unit of float8 codes: element k, and the scale of all.
inline float float8_value(const std::uint8_t* unit, int k, int lane) {
  return e4m3_to_f32(unit[64 + k / 2 * 32 + lane * 2 + k % 2]);
}
inline float float8_scale(const std::uint8_t* unit, int lane) {
  float scale;
  std::memcpy(&scale, unit + 4 * lane, 4);
  return scale;
}

// Element k of a unit of a float kind.
inline float float_value(PackedKind kind, const std::uint8_t* unit, int k, int lane) {
  if (is_float8_kind(kind)) return float8_value(unit, k, lane) * float8_scale(unit, lane);
  if (kind == PackedKind::kF16) return f16_to_f32(read_half(unit + k * 32 + lane * 2));
  if (kind == PackedKind::kBF16) return bf16_to_f32(read_half(unit + lane * 4 + k * 2));
  float f;
  std::memcpy(&f, unit + k * 64 + lane * 4, 4);
  return f;
}

}  // namespace quire::ref
