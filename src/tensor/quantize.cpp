#include "tensor/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/quant_blocks.h"

namespace quire {
namespace {

constexpr int kGroup = 32;

// The element of largest size, with its sign.
float extreme(const float* x) {
  return *std::max_element(x, x + kGroup,
                           [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

BlockQ8_0 to_q8(const float* x) {
  BlockQ8_0 block{f32_to_f16(std::fabs(extreme(x)) / 127.0f), {}};
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < kGroup; ++i) {
    const float code = d > 0 ? std::nearbyint(x[i] / d) : 0.0f;
    block.qs[i] = static_cast<std::int8_t>(std::clamp(code, -127.0f, 127.0f));
  }
  return block;
}

// Codes -8..7 at this scale; returns the squared error.
float q4_codes(const float* x, float d, int* codes) {
  float error = 0;
  for (int i = 0; i < kGroup; ++i) {
    const float code = d != 0 ? std::clamp(std::nearbyint(x[i] / d), -8.0f, 7.0f) : 0.0f;
    const float off = x[i] - code * d;
    codes[i] = static_cast<int>(code);
    error += off * off;
  }
  return error;
}

BlockQ4_0 to_q4(const float* x) {
  constexpr float kShares[] = {1.0f, 0.95f, 0.9f, 0.85f, 0.8f};
  const float top = extreme(x);
  BlockQ4_0 block{};
  float least = -1;
  for (const float share : kShares) {
    const std::uint16_t d = f32_to_f16(top / -8.0f * share);
    int codes[kGroup];
    const float error = q4_codes(x, f16_to_f32(d), codes);
    if (least >= 0 && error >= least) continue;
    least = error;
    block.d = d;
    for (int i = 0; i < 16; ++i)
      block.qs[i] = static_cast<std::uint8_t>((codes[i] + 8) | (codes[i + 16] + 8) << 4);
  }
  return block;
}

}  // namespace

void quantize_row(DType target, const float* x, std::int64_t columns, std::byte* out) {
  QUIRE_CHECK((target == DType::kQ8_0 || target == DType::kQ4_0) && columns % kGroup == 0,
              "a row of {} as {}", columns, dtype_name(target));
  for (std::int64_t i = 0; i < columns; i += kGroup) {
    if (target == DType::kQ8_0) {
      const BlockQ8_0 block = to_q8(x + i);
      std::memcpy(out, &block, sizeof(block));
      out += sizeof(block);
    } else {
      const BlockQ4_0 block = to_q4(x + i);
      std::memcpy(out, &block, sizeof(block));
      out += sizeof(block);
    }
  }
}

}  // namespace quire
