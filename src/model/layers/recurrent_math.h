// exp and what is made of it, for the recurrent layers: multiplications and additions only, in one
// order, so that a value has the same bits in a vector loop, alone, and on every CPU. Branch-free:
// compilers turn loops over them into vectors.
#pragma once

#include <bit>
#include <cstdint>

namespace quire::recurrent {

// condition ? a : b, by bits: a choice between floats that may trap keeps compilers from vectors.
inline float choose(bool condition, float a, float b) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & mask) |
                              (std::bit_cast<std::uint32_t>(b) & ~mask));
}

// e^x to 2 ulp for x <= 88 (larger x: e^88); 0 below -87, 1 at 0, NaN for NaN. Range reduction in
// two parts and the minimax polynomial of the Cephes library's expf.
inline float exp(float x) {
  constexpr float kToInteger =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float top = choose(x > 88.0f, 88.0f, x);
  const float t = choose(top < -87.0f, -87.0f, top);
  const float shifted = t * 1.44269504f + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (t - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * (r * r) + r) + 1.0f;
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(shifted) + 127u) << 23;
  const float scaled = y * std::bit_cast<float>(power);
  return choose(x < -87.0f, 0.0f, scaled);
}

// log(1 + e^x) = max(x, 0) + 2 atanh(s), s = e^-|x| / (2 + e^-|x|) in (0, 1/3]: nine terms of
// atanh's series.
inline float softplus(float x) {
  const float y = exp(choose(x > 0.0f, -x, x));
  const float s = y / (2.0f + y);
  const float q = s * s;
  float p = 1.0f / 17.0f;
  p = p * q + 1.0f / 15.0f;
  p = p * q + 1.0f / 13.0f;
  p = p * q + 1.0f / 11.0f;
  p = p * q + 1.0f / 9.0f;
  p = p * q + 1.0f / 7.0f;
  p = p * q + 1.0f / 5.0f;
  p = p * q + 1.0f / 3.0f;
  const float log1p = 2.0f * (p * q * s + s);
  return choose(x > 0.0f, x, 0.0f) + log1p;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
inline float silu(float x) { return x / (1.0f + exp(-x)); }

}  // namespace quire::recurrent
