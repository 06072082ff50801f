// Arithmetic over one row of logits. Plain loops in fixed-width lanes that the compiler turns into
// vectors: every element goes through the same f32 operations wherever it stands, and sums have one
// order, so the bits do not depend on the thread. NaN counts as minus infinity everywhere.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/ids.h"

// A plain loop compiled for several levels of x86, of which the loader takes the machine's best.
// The bits are the same, since nothing is fused or reordered. Sanitizers cannot do with such
// functions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define QUIRE_ROW_LOOP __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define QUIRE_ROW_LOOP
#endif

namespace quire {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// e^y for y <= 0, relative error under 2e-7; 0 below -87 (never a denormal) and for NaN. Range
// reduction by powers of two, then the polynomial of Cephes' expf.
inline float exp_nonpositive(float y) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  // max(y, -87) over the bits of the magnitude, and a mask for the result: comparisons of floats
  // would leave branches that keep loops from becoming vectors.
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(y) & 0x7fffffffu;
  const float z = -std::bit_cast<float>(std::min(magnitude, std::bit_cast<std::uint32_t>(87.0f)));
  const float n = (z * 1.44269504088896341f + kRounder) - kRounder;
  const float r = (z - n * 0.693359375f) - n * -2.12194440e-4f;
  float poly = 1.9875691500e-4f;
  poly = poly * r + 1.3981999507e-3f;
  poly = poly * r + 8.3334519073e-3f;
  poly = poly * r + 4.1665795894e-2f;
  poly = poly * r + 1.6666665459e-1f;
  poly = poly * r + 5.0000001201e-1f;
  const float mantissa = (poly * (r * r) + r) + 1.0f;
  const float power = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  const std::uint32_t keep = 0u - static_cast<std::uint32_t>(y >= -87.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(mantissa * power) & keep);
}

// Bans, of 32 * words ids, those whose bit is not set. Which ids a grammar allows is as good as
// random: no branch depends on a bit.
void mask_words(float* row, const std::uint32_t* mask, std::size_t words);

// NaN becomes minus infinity, plus infinity the largest float.
void sanitize_row(std::span<float> row);

struct RowMax {
  float value = kMinusInfinity;
  TokenId id = 0;  // lowest one that has it; 0 when all are minus infinity
};
RowMax row_max(std::span<const float> row);

// Writes the places of what is at least `floor` (above minus infinity), in ascending order, and
// gives their number. out: [row.size()]
std::size_t find_at_least(std::span<const float> row, float floor, std::uint32_t* out);

// Sum in double: eight interleaved partial sums, added in order.
double row_sum(std::span<const float> row);
// Sum of e^(row[i] - max) in double, in the order of row_sum. max is finite.
double row_sum_exp(std::span<const float> row, float max);

// The `count` best ids (greater value first, then the lower id) in that order. out is overwritten.
void top_ids(std::span<const float> row, std::int32_t count, std::vector<TokenId>* out);

}  // namespace quire
