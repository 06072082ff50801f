// Four-bit floats and tables, and ternary weights. Sources: ggml's block definitions; OCP
// Microscaling Formats 1.0 (MXFP4).
#include <bit>
#include <cmath>

#include "tensor/dequantize_blocks.h"
#include "tensor/half.h"

namespace quire {
namespace {

// IQ4's sixteen levels, dense near zero.
constexpr float kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
// E2M1 doubled, so that all are whole.
constexpr float kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128): half of the power that E8M0 means, for the doubled values; below 2^-126 a subnormal.
float half_e8m0(std::uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<std::uint32_t>(e - 1) << 23);
}

// Half of an unsigned E4M3; 0x7f is zero. The top bit is not looked at.
float half_ue4m3(std::uint8_t b) {
  if (b == 0 || b == 0x7f) return 0.0f;
  const int exponent = (b >> 3) & 15, mantissa = b & 7;
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), -10);
  return std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

// Digit n (0: highest) of the base-3 number that a byte holds as a fraction of 256.
int base3_digit(std::uint8_t byte, int n) {
  constexpr std::uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  const auto shifted = static_cast<std::uint8_t>(byte * kPowers[n]);
  return shifted * 3 >> 8;
}

}  // namespace

void block(const BlockIQ4_NL& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * kIq4Values[b.qs[i] & 15];
    out[i + 16] = d * kIq4Values[b.qs[i] >> 4];
  }
}

// Eight groups of 32, each as in IQ4_NL, with a six-bit scale.
void block(const BlockIQ4_XS& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < 8; ++j) {
    const int low = (b.scales_l[j / 2] >> (j % 2 * 4)) & 15, high = (b.scales_h >> (2 * j)) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    for (int i = 0; i < 16; ++i) {
      out[j * 32 + i] = scale * kIq4Values[b.qs[j * 16 + i] & 15];
      out[j * 32 + i + 16] = scale * kIq4Values[b.qs[j * 16 + i] >> 4];
    }
  }
}

void block(const BlockMXFP4& b, float* out) {
  const float d = half_e8m0(b.e);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * kFp4Values[b.qs[i] & 15];
    out[i + 16] = d * kFp4Values[b.qs[i] >> 4];
  }
}

// Four groups of 16: eight low nibbles, then the eight high ones.
void block(const BlockNVFP4& b, float* out) {
  for (int j = 0; j < 4; ++j) {
    const float d = half_ue4m3(b.d[j]);
    for (int i = 0; i < 8; ++i) {
      out[j * 16 + i] = d * kFp4Values[b.qs[j * 8 + i] & 15];
      out[j * 16 + i + 8] = d * kFp4Values[b.qs[j * 8 + i] >> 4];
    }
  }
}

// 160 elements in 32 bytes, 80 in 16, 16 in 4: digit n of byte i is element n * bytes + i.
void block(const BlockTQ1_0& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int n = 0; n < 5; ++n) {
    for (int i = 0; i < 32; ++i) {
      out[n * 32 + i] = d * static_cast<float>(base3_digit(b.qs[i], n) - 1);
    }
    for (int i = 0; i < 16; ++i) {
      out[160 + n * 16 + i] = d * static_cast<float>(base3_digit(b.qs[32 + i], n) - 1);
    }
  }
  for (int n = 0; n < 4; ++n) {
    for (int i = 0; i < 4; ++i) {
      out[240 + n * 4 + i] = d * static_cast<float>(base3_digit(b.qh[i], n) - 1);
    }
  }
}

void block(const BlockTQ2_0& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 256; ++i) {
    const int q = (b.qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    out[i] = d * static_cast<float>(q - 1);
  }
}

}  // namespace quire
