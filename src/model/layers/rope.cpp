#include "model/layers/rope.h"

#include <cmath>
#include <numbers>

namespace quire {
namespace {

// Llama 3.1's scaling: long wavelengths are stretched by `factor`, short ones kept, those between blended.
double llama3_scaled(double frequency, const RopeConfig& rope) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double low_wavelength = rope.original_max_position / rope.low_freq_factor;
  const double high_wavelength = rope.original_max_position / rope.high_freq_factor;
  if (wavelength < high_wavelength) return frequency;
  if (wavelength > low_wavelength) return frequency / rope.factor;
  const double smooth = (rope.original_max_position / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

Result<std::vector<double>> inverse_frequencies(const RopeConfig& rope) {
  const std::int32_t pairs = rope.rotary_dim / 2;
  if (!rope.freq_factors.empty() && rope.freq_factors.size() != static_cast<std::size_t>(pairs))
    return make_error(ErrorCode::kBadFile, "rope_freqs.weight has {} values; {} rotary pairs need {}",
                      rope.freq_factors.size(), pairs, pairs);
  std::vector<double> frequencies(static_cast<std::size_t>(pairs));
  for (std::int32_t i = 0; i < pairs; ++i) {
    double frequency = 1.0 / std::pow(rope.theta, 2.0 * i / rope.rotary_dim);
    switch (rope.kind) {
      case RopeConfig::Kind::kDefault:
        break;
      case RopeConfig::Kind::kLinear:
        frequency /= rope.factor;
        break;
      case RopeConfig::Kind::kLlama3:
        frequency = llama3_scaled(frequency, rope);
        break;
      case RopeConfig::Kind::kYarn:
      case RopeConfig::Kind::kLongrope:
      case RopeConfig::Kind::kDynamic:
      case RopeConfig::Kind::kUnsupported:
        return make_error(ErrorCode::kUnsupported, "RoPE scaling '{}' is not supported; known: default, linear, llama3",
                          rope.kind_name);
    }
    if (!rope.freq_factors.empty()) frequency /= rope.freq_factors[static_cast<std::size_t>(i)];
    frequencies[static_cast<std::size_t>(i)] = frequency;
  }
  return frequencies;
}

}  // namespace quire
