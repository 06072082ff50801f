// Byte layouts of the quantized blocks as GGUF files store them (little-endian).
// Source: the GGUF specification and ggml's block definitions. A value is what `value` says.
#pragma once

#include <cstdint>

namespace quire {

struct BlockQ4_0 { std::uint16_t d; std::uint8_t qs[16]; };             // d*(q-8); element i: low nibble of qs[i], i+16: high
struct BlockQ4_1 { std::uint16_t d, m; std::uint8_t qs[16]; };          // d*q + m
struct BlockQ5_0 { std::uint16_t d; std::uint8_t qh[4], qs[16]; };      // d*(q-16); bit i of qh is bit 4 of element i
struct BlockQ5_1 { std::uint16_t d, m; std::uint8_t qh[4], qs[16]; };   // d*q + m
struct BlockQ8_0 { std::uint16_t d; std::int8_t qs[32]; };              // d*q
// K-quants: 256 elements. scales: 8 six-bit scales and 8 six-bit minimums, packed (see get_scale_min_k4).
struct BlockQ4_K { std::uint16_t d, dmin; std::uint8_t scales[12], qs[128]; };          // d*sc*q - dmin*m
struct BlockQ5_K { std::uint16_t d, dmin; std::uint8_t scales[12], qh[32], qs[128]; };  // d*sc*q - dmin*m
struct BlockQ6_K { std::uint8_t ql[128], qh[64]; std::int8_t scales[16]; std::uint16_t d; };  // d*sc*(q-32)

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

// Scale and minimum number j (0..7) of a Q4_K/Q5_K super-block.
inline void get_scale_min_k4(int j, const std::uint8_t* scales, std::uint8_t* scale, std::uint8_t* min) {
  if (j < 4) {
    *scale = scales[j] & 63;
    *min = scales[j + 4] & 63;
  } else {
    *scale = static_cast<std::uint8_t>((scales[j + 4] & 0x0F) | ((scales[j - 4] >> 6) << 4));
    *min = static_cast<std::uint8_t>((scales[j + 4] >> 4) | ((scales[j] >> 6) << 4));
  }
}

}  // namespace quire
