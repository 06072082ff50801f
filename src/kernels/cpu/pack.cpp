// Packs stored weights into the layout of packed.h. Runs at load, panels in parallel; no arithmetic
// beyond the rounding that the kind asks for.
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/pack_float.h"
#include "kernels/cpu/packed.h"
#include "tensor/quant_blocks.h"

namespace quire {
namespace {

using Byte = std::uint8_t;

std::uint16_t half_at(const Byte* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return h;
}

// ---- integer kinds: 32 codes of a group, then nibbles, bit planes and scales

void put_half(Byte* scales, int lane, std::uint16_t h) { std::memcpy(scales + 2 * lane, &h, 2); }

// Four bytes at once: loading a model is bound by this file.
std::uint32_t quad_at(const Byte* p) {
  std::uint32_t quad;
  std::memcpy(&quad, p, 4);
  return quad;
}
void put_quad(Byte* out, std::uint32_t quad) { std::memcpy(out, &quad, 4); }

// Low nibbles are quads 0-3 (k 0..15), high nibbles quads 4-7.
void put_nibbles(Byte* out, int lane, const Byte* q) {
  constexpr std::uint32_t kLow = 0x0f0f0f0fu;
  for (int j = 0; j < 4; ++j)
    put_quad(out + j * 64 + lane * 4, (quad_at(q + 4 * j) & kLow) | (quad_at(q + 16 + 4 * j) & kLow)
                                                                        << 4);
}
// Bit j of byte c is bit `bit` of k = 4 j + c.
void put_plane(Byte* out, int lane, const Byte* q, int bit) {
  std::uint32_t bits = 0;
  for (int j = 0; j < 8; ++j) bits |= (quad_at(q + 4 * j) >> bit & 0x01010101u) << j;
  put_quad(out + lane * 4, bits);
}
// Bits 2 (j % 4).. of byte c in plane j / 4 are the bits from `bit` on of k = 4 j + c.
void put_pairs(Byte* out, int lane, const Byte* q, int bit) {
  for (int half = 0; half < 2; ++half) {
    std::uint32_t bits = 0;
    for (int j = 0; j < 4; ++j)
      bits |= (quad_at(q + 16 * half + 4 * j) >> bit & 0x03030303u) << (2 * j);
    put_quad(out + half * 64 + lane * 4, bits);
  }
}
// Codes of a 5-bit block: nibbles as in Q4_0, bit i of qh is bit 4 of element i.
void codes5(const Byte* qs, const Byte* qh, Byte* q) {
  std::uint32_t high;
  std::memcpy(&high, qh, 4);
  for (int i = 0; i < 16; ++i) {
    q[i] = static_cast<Byte>((qs[i] & 15) | (((high >> i) & 1u) << 4));
    q[i + 16] = static_cast<Byte>((qs[i] >> 4) | (((high >> (i + 16)) & 1u) << 4));
  }
}

void pack_q8(const Byte* block, int lane, Byte* unit) {
  for (int j = 0; j < 8; ++j)
    put_quad(unit + j * 64 + lane * 4, quad_at(block + 2 + 4 * j) ^ 0x80808080u);  // q + 128
  put_half(unit + 512, lane, half_at(block));
}
// Q4_0, Q4_1 and IQ4_NL: their nibbles stand as the packed ones do.
void pack_q4(const Byte* block, bool has_min, int lane, Byte* unit) {
  const Byte* qs = block + (has_min ? 4 : 2);
  for (int j = 0; j < 4; ++j) std::memcpy(unit + j * 64 + lane * 4, qs + 4 * j, 4);
  put_half(unit + 256, lane, half_at(block));
  if (has_min) put_half(unit + 288, lane, half_at(block + 2));
}
void pack_q5(const Byte* block, bool has_min, int lane, Byte* unit) {
  const Byte* qh = block + (has_min ? 4 : 2);
  Byte q[32];
  codes5(qh + 4, qh, q);
  put_nibbles(unit, lane, q);
  put_plane(unit + 256, lane, q, 4);
  put_half(unit + 320, lane, half_at(block));
  if (has_min) put_half(unit + 352, lane, half_at(block + 2));
}
// Q4_K and Q5_K. Each 64 elements share 32 bytes of nibbles: low, then high.
void pack_q45k(const Byte* block, bool five, int lane, Byte* unit) {
  const Byte* scales = block + 4;
  const Byte* qh = block + 16;
  const Byte* qs = five ? block + 48 : block + 16;
  const int group_bytes = five ? 352 : 288;
  put_half(unit, lane, half_at(block));
  put_half(unit + 32, lane, half_at(block + 2));
  for (int g = 0; g < 8; ++g) {
    Byte q[32];
    for (int i = 0; i < 32; i += 4) {
      std::uint32_t quad = quad_at(qs + g / 2 * 32 + i) >> (g % 2 * 4) & 0x0f0f0f0fu;
      if (five) quad |= (quad_at(qh + i) >> g & 0x01010101u) << 4;
      put_quad(q + i, quad);
    }
    Byte* group = unit + 64 + g * group_bytes;
    put_nibbles(group, lane, q);
    if (five) put_plane(group + 256, lane, q, 4);
    Byte* out = group + group_bytes - 32;
    get_scale_min_k4(g, scales, out + lane, out + 16 + lane);
  }
}
// Q6_K: halves of 128; ql has two nibbles, qh four pairs of bits, per byte.
void pack_q6k(const Byte* block, int lane, Byte* unit) {
  const Byte *ql = block, *qh = block + 128, *scales = block + 192;
  put_half(unit, lane, half_at(block + 208));
  for (int g = 0; g < 8; ++g) {
    const int half = g / 4, quarter = g % 4;
    Byte q[32];
    for (int i = 0; i < 32; i += 4) {
      const std::uint32_t low =
          quad_at(ql + half * 64 + quarter % 2 * 32 + i) >> (quarter / 2 * 4) & 0x0f0f0f0fu;
      put_quad(q + i, low | (quad_at(qh + half * 32 + i) >> (2 * quarter) & 0x03030303u) << 4);
    }
    Byte* group = unit + 32 + g * 416;
    put_nibbles(group, lane, q);
    put_pairs(group + 256, lane, q, 4);
    group[384 + lane] = scales[2 * g];
    group[400 + lane] = scales[2 * g + 1];
  }
}

// The codes of 32 elements of Q2_K, and bits 0-1 of those of Q3_K: halves of 128, four to a byte.
void codes2(const Byte* qs, int g, Byte* q) {
  for (int i = 0; i < 32; i += 4)
    put_quad(q + i, quad_at(qs + g / 4 * 32 + i) >> (g % 4 * 2) & 0x03030303u);
}
void pack_q2k(const Byte* block, int lane, Byte* unit) {
  const Byte *scales = block, *qs = block + 16;
  put_half(unit, lane, half_at(block + 80));
  put_half(unit + 32, lane, half_at(block + 82));
  for (int word = 0; word < 2; ++word) {
    std::uint32_t sc = 0, m = 0;
    for (int i = 0; i < 8; ++i) {
      sc |= (scales[8 * word + i] & 15u) << (4 * i);
      m |= (scales[8 * word + i] >> 4 & 15u) << (4 * i);
    }
    put_quad(unit + 64 + 64 * word + 4 * lane, sc);
    put_quad(unit + 192 + 64 * word + 4 * lane, m);
  }
  for (int g = 0; g < 8; ++g) {
    Byte q[32];
    codes2(qs, g, q);
    put_pairs(unit + 320 + g * 128, lane, q, 0);
  }
}
// Scales: bits 0-3 in nibbles of eight bytes, bits 4-5 in four bytes.
void pack_q3k(const Byte* block, int lane, Byte* unit) {
  const Byte *hmask = block, *qs = block + 32, *scales = block + 96;
  put_half(unit, lane, half_at(block + 108));
  std::uint32_t low[2] = {}, high = 0;
  for (int s = 0; s < 16; ++s) {
    low[s / 8] |= (scales[s % 8] >> (s / 8 * 4) & 15u) << (s % 8 * 4);
    high |= (scales[8 + s % 4] >> (s / 4 * 2) & 3u) << (2 * s);
  }
  put_quad(unit + 32 + 4 * lane, low[0]);
  put_quad(unit + 96 + 4 * lane, low[1]);
  put_quad(unit + 160 + 4 * lane, high);
  for (int g = 0; g < 8; ++g) {
    Byte q[32];
    codes2(qs, g, q);
    for (int i = 0; i < 32; i += 4)
      put_quad(q + i, quad_at(q + i) | (quad_at(hmask + i) >> g & 0x01010101u) << 2);
    Byte* group = unit + 224 + g * 192;
    put_pairs(group, lane, q, 0);
    put_plane(group + 128, lane, q, 2);
  }
}

// MXFP4: nibbles as in Q4_0, an exponent per block.
void pack_mx4(const Byte* block, int lane, Byte* unit) {
  for (int j = 0; j < 4; ++j) std::memcpy(unit + j * 64 + lane * 4, block + 1 + 4 * j, 4);
  unit[256 + lane] = block[0] < 2 ? Byte{1} : block[0];  // 1 packs to a scale of 0
}
// Eight groups of nibbles as in IQ4_NL.
void pack_iq4xs(const Byte* block, int lane, Byte* unit) {
  const Byte *scales_high = block + 2, *scales_low = block + 4, *qs = block + 8;
  put_half(unit, lane, half_at(block));
  for (int g = 0; g < 8; ++g) {
    Byte* group = unit + 32 + g * 272;
    for (int j = 0; j < 4; ++j) std::memcpy(group + j * 64 + lane * 4, qs + g * 16 + 4 * j, 4);
    const int low = scales_low[g / 2] >> (g % 2 * 4) & 15;
    const int high = scales_high[g / 4] >> (g % 4 * 2) & 3;
    group[256 + lane] = static_cast<Byte>((low | high << 4) - 32);
  }
}
// Scale and zero point of the whole unit, then groups of 32.
void pack_g4(const Byte* block, int groups, int lane, Byte* unit) {
  put_half(unit, lane, half_at(block));
  QUIRE_CHECK(block[2] <= 16, "a zero point of {} for 4 bits", block[2]);
  unit[32 + lane] = block[2];
  for (int g = 0; g < groups; ++g) {
    Byte* out = unit + 48 + g * 256;
    for (int j = 0; j < 4; ++j) std::memcpy(out + j * 64 + lane * 4, block + 3 + g * 16 + 4 * j, 4);
  }
}
void pack_g8(const Byte* block, int groups, int lane, Byte* unit) {
  put_half(unit, lane, half_at(block));
  unit[32 + lane] = block[2];
  for (int k = 0; k < 32 * groups; k += 4)
    std::memcpy(unit + 48 + k / 4 * 64 + lane * 4, block + 3 + k, 4);
}
// The kernels read a NaN code as a number, so its block gets a scale that is NaN: the product is
// the same.
void pack_f8(const Byte* block, int elements, int lane, Byte* unit) {
  float scale = 0;
  std::memcpy(&scale, block, sizeof(scale));
  for (int k = 0; k < elements; ++k) {
    const Byte code = block[4 + k];
    if ((code & 0x7f) == 0x7f) scale = std::numeric_limits<float>::quiet_NaN();
    unit[64 + k / 2 * 32 + lane * 2 + k % 2] = code;
  }
  std::memcpy(unit + 4 * lane, &scale, 4);
}

void pack_block(PackedKind kind, const Byte* block, int lane, Byte* unit) {
  const int unit_k = packed_kind_info(kind).unit_k;
  if (is_g4_kind(kind)) return pack_g4(block, unit_k / 32, lane, unit);
  if (is_g8_kind(kind)) return pack_g8(block, unit_k / 32, lane, unit);
  if (is_float8_kind(kind)) return pack_f8(block, unit_k, lane, unit);
  switch (kind) {
    case PackedKind::kQ8:
      return pack_q8(block, lane, unit);
    case PackedKind::kQ4Sym:
    case PackedKind::kIq4Nl:
      return pack_q4(block, false, lane, unit);
    case PackedKind::kQ4Min:
      return pack_q4(block, true, lane, unit);
    case PackedKind::kQ5Sym:
      return pack_q5(block, false, lane, unit);
    case PackedKind::kQ5Min:
      return pack_q5(block, true, lane, unit);
    case PackedKind::kQ4K:
      return pack_q45k(block, false, lane, unit);
    case PackedKind::kQ5K:
      return pack_q45k(block, true, lane, unit);
    case PackedKind::kQ6K:
      return pack_q6k(block, lane, unit);
    case PackedKind::kQ2K:
      return pack_q2k(block, lane, unit);
    case PackedKind::kQ3K:
      return pack_q3k(block, lane, unit);
    case PackedKind::kMx4:
      return pack_mx4(block, lane, unit);
    case PackedKind::kIq4Xs:
      return pack_iq4xs(block, lane, unit);
    default:
      break;
  }
  QUIRE_CHECK(false, "{} is not a kind of blocks", packed_kind_info(kind).name);
}

// A zero channel: all bits 0 except the offset codes of q8.
void pack_empty_block(PackedKind kind, int lane, Byte* unit) {
  if (kind != PackedKind::kQ8) return;
  for (int j = 0; j < 8; ++j) std::memset(unit + j * 64 + lane * 4, 0x80, 4);
}

}  // namespace

void pack_panels(const PackedShape& shape, DType stored, const std::byte* rows,
                 std::int64_t row_bytes, std::int64_t panel_begin, std::int64_t panel_end,
                 std::byte* out) {
  const std::int64_t unit_bytes = packed_kind_info(shape.kind).unit_bytes;
  const std::int64_t units = shape.units(), block_bytes = dtype_info(stored).block_bytes;
  const Byte* source = reinterpret_cast<const Byte*>(rows);
  if (is_block_kind(shape.kind))
    QUIRE_CHECK(shape.k % dtype_info(stored).block_elements == 0, "k {} of a {} matrix", shape.k,
                dtype_name(stored));
  for (std::int64_t panel = panel_begin; panel < panel_end; ++panel) {
    const std::int64_t first = panel * kPanelStrips;
    const std::int64_t strips =
        shape.strips() - first < kPanelStrips ? shape.strips() - first : kPanelStrips;
    Byte* base = reinterpret_cast<Byte*>(out) + shape.panel_offset(panel);
    const std::int64_t unit_stride = strips * unit_bytes;
    if (!is_block_kind(shape.kind)) {
      pack_float_panel(shape, stored, source, row_bytes, first, strips, base);
      continue;
    }
    std::memset(base, 0, static_cast<std::size_t>(units * unit_stride));
    for (std::int64_t s = 0; s < strips; ++s) {
      for (int lane = 0; lane < kStrip; ++lane) {
        const std::int64_t n = (first + s) * kStrip + lane;
        const Byte* row = source + n * row_bytes;
        Byte* strip = base + s * unit_bytes;
        for (std::int64_t u = 0; u < units; ++u) {
          Byte* unit = strip + u * unit_stride;
          if (n < shape.n) {
            pack_block(shape.kind, row + u * block_bytes, lane, unit);
          } else {
            pack_empty_block(shape.kind, lane, unit);
          }
        }
      }
    }
  }
}

}  // namespace quire
