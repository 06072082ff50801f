// Byte layouts of the quantized blocks as GGUF files store them (little-endian).
// Source: the GGUF specification and ggml's block definitions. A value is what `value` says.
#pragma once

#include <cstdint>

namespace quire {

struct BlockQ4_0 {
  std::uint16_t d;
  std::uint8_t qs[16];
};  // d*(q-8); element i: low nibble of qs[i], i+16: high
struct BlockQ4_1 {
  std::uint16_t d, m;
  std::uint8_t qs[16];
};  // d*q + m
struct BlockQ5_0 {
  std::uint16_t d;
  std::uint8_t qh[4], qs[16];
};  // d*(q-16); bit i of qh is bit 4 of element i
struct BlockQ5_1 {
  std::uint16_t d, m;
  std::uint8_t qh[4], qs[16];
};  // d*q + m
struct BlockQ8_0 {
  std::uint16_t d;
  std::int8_t qs[32];
};  // d*q
// K-quants: 256 elements. scales: 8 six-bit scales and 8 six-bit minimums, packed (see
// get_scale_min_k4).
struct BlockQ4_K {
  std::uint16_t d, dmin;
  std::uint8_t scales[12], qs[128];
};  // d*sc*q - dmin*m
struct BlockQ5_K {
  std::uint16_t d, dmin;
  std::uint8_t scales[12], qh[32], qs[128];
};  // d*sc*q - dmin*m
struct BlockQ6_K {
  std::uint8_t ql[128], qh[64];
  std::int8_t scales[16];
  std::uint16_t d;
};  // d*sc*(q-32)

// Q2_K, Q3_K: a scale per 16 elements; element 32 r + i of a half of 128 in bits 2r, 2r + 1 of
// qs[i].
struct BlockQ2_K {
  std::uint8_t scales[16], qs[64];
  std::uint16_t d, dmin;
};  // d*(sc&15)*q - dmin*(sc>>4)
struct BlockQ3_K {
  std::uint8_t hmask[32], qs[64], scales[12];
  std::uint16_t d;
};  // d*(sc-32)*(q-4)
// A table of 16 values (see dequantize_small.cpp) in place of q.
struct BlockIQ4_NL {
  std::uint16_t d;
  std::uint8_t qs[16];
};  // d*value
struct BlockIQ4_XS {
  std::uint16_t d, scales_h;
  std::uint8_t scales_l[4], qs[128];
};  // d*(sc-32)*value
struct BlockMXFP4 {
  std::uint8_t e, qs[16];
};  // 2^(e-128)*value (E2M1, doubled)
struct BlockNVFP4 {
  std::uint8_t d[4], qs[32];
};  // d (UE4M3, halved) per 16, *value
// Ternary: d*(q-1). TQ1_0: five digits of base 3 in a byte; TQ2_0: two bits each.
struct BlockTQ1_0 {
  std::uint8_t qs[48], qh[4];
  std::uint16_t d;
};
struct BlockTQ2_0 {
  std::uint8_t qs[64];
  std::uint16_t d;
};
// Groups of 8 (IQ1, IQ2) or 4 (IQ3) elements by their number in a table (iq_grids.h), with signs.
struct BlockIQ1_S {
  std::uint16_t d;
  std::uint8_t qs[32];
  std::uint16_t qh[8];
};
struct BlockIQ1_M {
  std::uint8_t qs[32], qh[16];
  std::uint16_t scales[4];
};
struct BlockIQ2_XXS {
  std::uint16_t d, qs[32];
};
struct BlockIQ2_XS {
  std::uint16_t d, qs[32];
  std::uint8_t scales[8];
};
struct BlockIQ2_S {
  std::uint16_t d;
  std::uint8_t qs[32], signs[32], qh[8], scales[8];
};
struct BlockIQ3_XXS {
  std::uint16_t d;
  std::uint8_t qs[64], scales_and_signs[32];
};
struct BlockIQ3_S {
  std::uint16_t d;
  std::uint8_t qs[64], qh[8], signs[32], scales[4];
};

// Of AWQ, GPTQ and compressed-tensors: d*(q-zero), d in f16, of nibbles zero at most 16. Nibbles of
// every 32 elements as in Q4_0.
template <int elements>
struct BlockG4 {
  std::uint8_t d[2], zero, qs[elements / 2];
};
template <int elements>
struct BlockG8 {
  std::uint8_t d[2], zero, qs[elements];
};
// float8_e4m3 codes: d*value, d in f32.
template <int elements>
struct BlockF8 {
  std::uint8_t d[4], qs[elements];
};

static_assert(sizeof(BlockG4<128>) == 67 && sizeof(BlockG8<64>) == 67 && sizeof(BlockF8<32>) == 36);
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110 && sizeof(BlockIQ4_NL) == 18);
static_assert(sizeof(BlockIQ4_XS) == 136 && sizeof(BlockMXFP4) == 17 && sizeof(BlockNVFP4) == 36);
static_assert(sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66 && sizeof(BlockIQ1_S) == 50);
static_assert(sizeof(BlockIQ1_M) == 56 && sizeof(BlockIQ2_XXS) == 66 && sizeof(BlockIQ2_XS) == 74);
static_assert(sizeof(BlockIQ2_S) == 82 && sizeof(BlockIQ3_XXS) == 98 && sizeof(BlockIQ3_S) == 110);

// Scale and minimum number j (0..7) of a Q4_K/Q5_K super-block.
inline void get_scale_min_k4(int j, const std::uint8_t* scales, std::uint8_t* scale,
                             std::uint8_t* min) {
  if (j < 4) {
    *scale = scales[j] & 63;
    *min = scales[j + 4] & 63;
  } else {
    *scale = static_cast<std::uint8_t>((scales[j + 4] & 0x0F) | ((scales[j - 4] >> 6) << 4));
    *min = static_cast<std::uint8_t>((scales[j + 4] >> 4) | ((scales[j] >> 6) << 4));
  }
}

}  // namespace quire
