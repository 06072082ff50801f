// Scalar pieces of the reference kernels: exp, and the fixed-order lane sum.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace quire::ref {

// e^x to 2 ulp for x <= 88 (larger x: e^88); 0 below -87, 1 at 0, NaN for NaN. Range reduction in
// two parts and the minimax polynomial of the Cephes library's expf, FMA written out.
inline float exp(float x) {
  if (x < -87.0f) return 0.0f;
  if (std::isnan(x)) return x;
  const float t = x < 88.0f ? x : 88.0f;
  const float n = std::nearbyint(t * 1.44269504f);
  float r = std::fma(n, -0.693359375f, t);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = std::fma(p, r, 1.3981999507e-3f);
  p = std::fma(p, r, 8.3334519073e-3f);
  p = std::fma(p, r, 4.1665795894e-2f);
  p = std::fma(p, r, 1.6666665459e-1f);
  p = std::fma(p, r, 5.0000001201e-1f);
  const float y = std::fma(p, r * r, r) + 1.0f;
  return y * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

// e^x for x <= 0, of a softmax: the error is below 2^-22 (1 - x / 3), relative; 0 below -87, 1 at
// 0, NaN for NaN. 2^y, y = x log2 e, by a polynomial of degree 6 (fitted to the relative error on
// [-1/2, 1/2], 2e-8) and the exponent's bits: half of exp's multiplications.
inline float softmax_exp(float x) {
  if (x < -87.0f) return 0.0f;
  if (std::isnan(x)) return x;
  const float y = x * 1.44269504f;
  const float n = std::nearbyint(y), r = y - n;
  float p = 1.5353362e-4f;
  p = std::fma(p, r, 1.3398875e-3f);
  p = std::fma(p, r, 9.61843692e-3f);
  p = std::fma(p, r, 5.55033237e-2f);
  p = std::fma(p, r, 2.40226477e-1f);
  p = std::fma(p, r, 6.93147182e-1f);
  p = std::fma(p, r, 1.0f);
  const auto exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n)) << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
}

// 1 / (1 + e^-x), as its divisor.
inline float sigmoid_divisor(float x) { return 1.0f + exp(-x); }

// tanh to 3 ulp: the odd polynomial of the Cephes library's tanhf below 0.625, else by exp.
inline float tanh(float x) {
  const float a = x > -x ? x : -x;
  if (a < 0.625f) {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = std::fma(p, z, 2.06390887954e-2f);
    p = std::fma(p, z, -5.37397155531e-2f);
    p = std::fma(p, z, 1.33314422036e-1f);
    p = std::fma(p, z, -3.33332819422e-1f);
    return std::fma(p * z, x, x);
  }
  const float big = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return x < 0.0f ? -big : big;
}

// erfc(x) for x >= 0, to 5e-7: Abramowitz and Stegun 7.1.26.
inline float erfc(float x) {
  const float t = 1.0f / std::fma(0.3275911f, x, 1.0f);
  float p = 1.061405429f;
  p = std::fma(p, t, -1.453152027f);
  p = std::fma(p, t, 1.421413741f);
  p = std::fma(p, t, -0.284496736f);
  p = std::fma(p, t, 0.254829592f);
  return p * t * exp(-(x * x));
}

// Folds 64 lanes: (0 + 1) + (2 + 3) of the sixteens, then halves.
inline float fold_lanes(const float* lanes) {
  float v[16];
  for (int l = 0; l < 16; ++l) v[l] = (lanes[l] + lanes[16 + l]) + (lanes[32 + l] + lanes[48 + l]);
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) v[l] = v[l] + v[l + half];
  }
  return v[0];
}

}  // namespace quire::ref
