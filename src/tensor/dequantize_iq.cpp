// IQ1, IQ2 and IQ3: groups of elements are looked up in tables of lattice points. Source: ggml's
// block definitions.
#include <bit>
#include <cstring>

#include "tensor/dequantize_blocks.h"
#include "tensor/half.h"
#include "tensor/iq_grids.h"

namespace quire {
namespace {

constexpr float kIq2Levels[4] = {0x08, 0x19, 0x2b, 0};
constexpr float kIq3XxsLevels[8] = {0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e};

// Seven stored signs; the eighth makes the number of minuses even.
std::uint8_t with_parity(std::uint32_t signs) {
  signs &= 127;
  return static_cast<std::uint8_t>(signs | static_cast<std::uint32_t>(std::popcount(signs) & 1)
                                               << 7);
}

// Eight elements: scale * level * sign. point: two bits per element, lowest first.
void put_iq2(float scale, std::uint16_t point, std::uint8_t signs, float* out) {
  for (int i = 0; i < 8; ++i) {
    const float value = scale * kIq2Levels[(point >> (2 * i)) & 3];
    out[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

// Eight elements of IQ1: scale * (-1, 0 or 1, plus delta).
void put_iq1(float scale, std::uint16_t point, float delta, float* out) {
  for (int i = 0; i < 8; ++i) {
    out[i] = scale * (static_cast<float>((point >> (2 * i)) & 3) - 1.0f + delta);
  }
}

constexpr float kDelta = 0.125f;

}  // namespace

// Per 32 elements: 4 table numbers of 8 bits, 4 x 7 signs, a scale of 4 bits.
void block(const BlockIQ2_XXS& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < 8; ++j) {
    const std::uint32_t numbers = b.qs[4 * j] | static_cast<std::uint32_t>(b.qs[4 * j + 1]) << 16;
    const std::uint32_t rest = b.qs[4 * j + 2] | static_cast<std::uint32_t>(b.qs[4 * j + 3]) << 16;
    const float scale = d * (0.5f + static_cast<float>(rest >> 28)) * 0.25f;
    for (int l = 0; l < 4; ++l) {
      put_iq2(scale, kIq2XxsGrid[(numbers >> (8 * l)) & 255], with_parity(rest >> (7 * l)),
              out + j * 32 + l * 8);
    }
  }
}

// Per 8 elements: a table number of 9 bits and 7 signs; a scale of 4 bits per 16.
void block(const BlockIQ2_XS& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < 32; ++j) {
    const int nibble = (b.scales[j / 4] >> (j / 2 % 2 * 4)) & 15;
    const float scale = d * (0.5f + static_cast<float>(nibble)) * 0.25f;
    put_iq2(scale, kIq2XsGrid[b.qs[j] & 511], with_parity(b.qs[j] >> 9), out + j * 8);
  }
}

// Per 8 elements: a table number of 8 + 2 bits and 8 signs; a scale of 4 bits per 16.
void block(const BlockIQ2_S& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < 32; ++j) {
    const int nibble = (b.scales[j / 4] >> (j / 2 % 2 * 4)) & 15;
    const float scale = d * (0.5f + static_cast<float>(nibble)) * 0.25f;
    const int number = b.qs[j] | ((b.qh[j / 4] >> (j % 4 * 2)) & 3) << 8;
    put_iq2(scale, kIq2SGrid[number], b.signs[j], out + j * 8);
  }
}

// Per 4 elements: a table number of 8 bits; per 32: 4 x 7 signs and a scale of 4 bits.
void block(const BlockIQ3_XXS& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < 8; ++j) {
    std::uint32_t rest = 0;
    std::memcpy(&rest, b.scales_and_signs + 4 * j, sizeof(rest));
    const float scale = d * (0.5f + static_cast<float>(rest >> 28)) * 0.5f;
    for (int i = 0; i < 32; ++i) {
      const std::uint16_t point = kIq3XxsGrid[b.qs[8 * j + i / 4]];
      const float value = scale * kIq3XxsLevels[(point >> (i % 4 * 3)) & 7];
      const bool minus = (with_parity(rest >> (i / 8 * 7)) >> (i % 8) & 1) != 0;
      out[j * 32 + i] = minus ? -value : value;
    }
  }
}

// Per 4 elements: a table number of 8 + 1 bits; a sign each; a scale of 4 bits per 32. Levels are
// the odd numbers to 15.
void block(const BlockIQ3_S& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 4;
    const int nibble = (b.scales[i / 64] >> (i / 32 % 2 * 4)) & 15;
    const float scale = d * static_cast<float>(1 + 2 * nibble);
    const int number = b.qs[group] | ((b.qh[group / 8] >> (group % 8)) & 1) << 8;
    const int level = 2 * ((kIq3SGrid[number] >> (i % 4 * 3)) & 7) + 1;
    const float value = scale * static_cast<float>(level);
    out[i] = (b.signs[i / 8] >> (i % 8) & 1) != 0 ? -value : value;
  }
}

// Per 8 elements: a table number of 8 + 3 bits; per 32: a scale of 3 bits and delta's sign.
void block(const BlockIQ1_S& b, float* out) {
  const float d = f16_to_f32(b.d);
  for (int j = 0; j < 32; ++j) {
    const int qh = b.qh[j / 4];
    const float scale = d * static_cast<float>(2 * ((qh >> 12) & 7) + 1);
    const int number = b.qs[j] | ((qh >> (j % 4 * 3)) & 7) << 8;
    put_iq1(scale, kIq1Grid[number], (qh & 0x8000) != 0 ? -kDelta : kDelta, out + j * 8);
  }
}

// As IQ1_S with delta's sign per 8 elements and a scale of 3 bits per 16; the block's scale lies in
// the four top nibbles of `scales`.
void block(const BlockIQ1_M& b, float* out) {
  std::uint32_t half = 0;
  for (int j = 0; j < 4; ++j) half |= static_cast<std::uint32_t>(b.scales[j] >> 12) << (4 * j);
  const float d = f16_to_f32(static_cast<std::uint16_t>(half));
  for (int j = 0; j < 32; ++j) {
    const int nibble = (b.qh[j / 2] >> (j % 2 * 4)) & 15;
    const int s = (b.scales[j / 8] >> (j / 2 % 4 * 3)) & 7;
    const float scale = d * static_cast<float>(2 * s + 1);
    const int number = b.qs[j] | (nibble & 7) << 8;
    put_iq1(scale, kIq1Grid[number], (nibble & 8) != 0 ? -kDelta : kDelta, out + j * 8);
  }
}

}  // namespace quire
