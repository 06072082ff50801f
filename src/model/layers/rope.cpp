#include "model/layers/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quire {
namespace {

// Llama 3.1's scaling: long wavelengths are stretched by `factor`, short ones kept, those between
// blended.
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

// YaRN (Peng et al., 2023): the pair that turns `rotations` times over the original length, as a
// fractional index.
double yarn_pair(const RopeConfig& rope, double rotations) {
  return rope.rotary_dim *
         std::log(rope.original_max_position / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}
double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// Pairs before `low` keep their frequency, those after `high` are stretched.
void scale_yarn(const RopeConfig& rope, RopeFrequencies* out) {
  double low = yarn_pair(rope, rope.beta_fast), high = yarn_pair(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < out->inverse.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    out->inverse[i] = out->inverse[i] / rope.factor * stretched + out->inverse[i] * (1 - stretched);
  }
  if (rope.attention_factor) {
    out->scale = *rope.attention_factor;
  } else if (rope.mscale != 0 && rope.mscale_all_dim != 0) {
    out->scale =
        yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim);
  } else {
    out->scale = yarn_mscale(rope.factor, 1.0);
  }
}

// LongRoPE (Ding et al., 2024): a factor for each pair, one list for short requests and one for
// long.
Status scale_longrope(const RopeConfig& rope, bool is_long, RopeFrequencies* out) {
  const std::vector<double>& factors = is_long ? rope.long_factor : rope.short_factor;
  if (factors.size() != out->inverse.size())
    return make_error(ErrorCode::kBadFile,
                      "rope scaling 'longrope': {} has {} values; {} rotary pairs need as many",
                      is_long ? "long_factor" : "short_factor", factors.size(),
                      out->inverse.size());
  for (std::size_t i = 0; i < factors.size(); ++i) out->inverse[i] /= factors[i];
  const std::optional<double>& mscale = is_long ? rope.long_mscale : rope.short_mscale;
  if (mscale) {
    out->scale = *mscale;
  } else if (rope.attention_factor) {
    out->scale = *rope.attention_factor;
  } else if (rope.factor > 1) {
    out->scale = std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_max_position));
  }
  return {};
}

// Dynamic NTK: the base grows with the request, from the model's length on.
double dynamic_theta(const RopeConfig& rope, std::int64_t prompt_tokens) {
  const double length = std::max(static_cast<double>(prompt_tokens), rope.original_max_position);
  const double stretch = rope.factor * length / rope.original_max_position - (rope.factor - 1);
  return rope.theta * std::pow(stretch, rope.rotary_dim / (rope.rotary_dim - 2.0));
}

Status check(const RopeConfig& rope) {
  using Kind = RopeConfig::Kind;
  if (rope.kind == Kind::kUnsupported)
    return make_error(ErrorCode::kUnsupported,
                      "RoPE scaling '{}' is not supported; known: default, linear, dynamic, "
                      "llama3, yarn, longrope",
                      rope.kind_name);
  const bool needs_original = rope.kind == Kind::kLlama3 || rope.kind == Kind::kYarn ||
                              rope.kind == Kind::kLongrope || rope.kind == Kind::kDynamic;
  if (needs_original && rope.original_max_position <= 0)
    return make_error(ErrorCode::kBadFile,
                      "RoPE scaling '{}' needs original_max_position_embeddings (it is {})",
                      rope.kind_name, rope.original_max_position);
  if (rope.rotary_dim <= 0 || rope.rotary_dim % 2 != 0)
    return make_error(ErrorCode::kBadFile, "{} rotary dimensions; an even number is needed",
                      rope.rotary_dim);
  const auto pairs = static_cast<std::size_t>(rope.rotary_dim / 2);
  if (!rope.freq_factors.empty() && rope.freq_factors.size() != pairs)
    return make_error(ErrorCode::kBadFile,
                      "rope_freqs.weight has {} values; {} rotary pairs need {}",
                      rope.freq_factors.size(), pairs, pairs);
  return {};
}

}  // namespace

Result<RopeFrequencies> rope_frequencies(const RopeConfig& rope, std::int64_t prompt_tokens) {
  QUIRE_TRY(check(rope));
  const double theta =
      rope.kind == RopeConfig::Kind::kDynamic ? dynamic_theta(rope, prompt_tokens) : rope.theta;
  RopeFrequencies out;
  for (std::int32_t i = 0; i < rope.rotary_dim / 2; ++i) {
    double frequency = 1.0 / std::pow(theta, 2.0 * i / rope.rotary_dim);
    if (rope.kind == RopeConfig::Kind::kLinear) frequency /= rope.factor;
    if (rope.kind == RopeConfig::Kind::kLlama3) frequency = llama3_scaled(frequency, rope);
    if (!rope.freq_factors.empty()) frequency /= rope.freq_factors[static_cast<std::size_t>(i)];
    out.inverse.push_back(frequency);
  }
  if (rope.kind == RopeConfig::Kind::kYarn) scale_yarn(rope, &out);
  if (rope.kind == RopeConfig::Kind::kLongrope) {
    QUIRE_TRY(scale_longrope(rope, static_cast<double>(prompt_tokens) > rope.original_max_position,
                             &out));
  }
  return out;
}

Result<Rope> Rope::create(const RopeConfig& config) {
  Rope rope;
  rope.config_ = config;
  rope.by_length_ =
      config.kind == RopeConfig::Kind::kDynamic || config.kind == RopeConfig::Kind::kLongrope;
  QUIRE_ASSIGN(rope.short_, rope_frequencies(config, 0));
  const auto beyond = static_cast<std::int64_t>(config.original_max_position) + 1;
  QUIRE_ASSIGN(rope.long_, rope_frequencies(config, beyond));
  rope.dynamic_ = rope.long_;
  return rope;
}

const RopeFrequencies& Rope::of_request(std::int64_t prompt_tokens) const {
  if (static_cast<double>(prompt_tokens) <= config_.original_max_position) return short_;
  if (config_.kind == RopeConfig::Kind::kLongrope) return long_;
  const double theta = dynamic_theta(config_, prompt_tokens);
  for (std::size_t i = 0; i < dynamic_.inverse.size(); ++i)
    dynamic_.inverse[i] = 1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / config_.rotary_dim);
  return dynamic_;
}

std::uint64_t Rope::regime(std::int64_t prompt_tokens) const {
  if (!by_length_ || static_cast<double>(prompt_tokens) <= config_.original_max_position) return 0;
  return config_.kind == RopeConfig::Kind::kLongrope ? 1
                                                     : static_cast<std::uint64_t>(prompt_tokens);
}

RopeTable Rope::table(Backend& backend, Workspace& workspace, const ModelInput& input) const {
  const std::int64_t half = config_.rotary_dim / 2;
  float* const cos = workspace.take<float>(input.rows() * half);
  float* const sin = workspace.take<float>(input.rows() * half);
  if (!by_length_) {
    backend.rope_table(input.positions, short_.inverse, short_.scale, cos, sin);
  }
  for (std::size_t s = 0; by_length_ && s + 1 < input.row_begin.size(); ++s) {
    const std::int32_t begin = input.row_begin[s], end = input.row_begin[s + 1];
    const RopeFrequencies& frequencies = of_request(input.prompt_tokens[s]);
    backend.rope_table(input.positions.subspan(static_cast<std::size_t>(begin),
                                               static_cast<std::size_t>(end - begin)),
                       frequencies.inverse, frequencies.scale, cos + begin * half,
                       sin + begin * half);
  }
  return {cos, sin, config_.rotary_dim, config_.interleaved};
}

}  // namespace quire
