// Rotary positions of a GGUF: metadata and the tensors of factors. The converter has folded some
// kinds away: llama3 into rope_freqs, Hunyuan's alpha into the base.
#include <cmath>

#include "weights/checked.h"
#include "weights/gguf_fields.h"
#include "weights/weight_source.h"

namespace quire {
namespace {

using Kind = RopeConfig::Kind;

// A vector of rotary_dim / 2 positive factors; empty when the file has none.
Result<std::vector<float>> read_factors(const GgufFile& file, const std::string& name,
                                        std::int32_t rotary_dim) {
  std::vector<float> factors;
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) return factors;
  const TensorView& view = found->second;
  const std::int64_t wanted = rotary_dim / 2;
  if (view.shape != Shape{wanted} || view.dtype != DType::kF32) {
    return make_error(ErrorCode::kBadFile, "{}: tensor \"{}\" is {} {}; F32 [{}] is expected",
                      file.name(), name, dtype_name(view.dtype), view.shape.to_string(), wanted);
  }
  factors.resize(static_cast<std::size_t>(wanted));
  dequantize_row(view, 0, factors.data());
  for (float factor : factors) {
    if (!(factor > 0 && std::isfinite(factor))) {
      return make_error(ErrorCode::kBadFile, "{}: tensor \"{}\" holds {}; factors must be positive",
                        file.name(), name, factor);
    }
  }
  return factors;
}

Status read_yarn(const ArchFields& fields, std::string_view architecture, RopeConfig* rope) {
  const auto either = [&](const char* newer, const char* older) {
    const auto value = fields.number(newer);
    return value ? value : fields.number(older);
  };
  rope->beta_fast = either("rope.scaling.yarn_beta_fast", "rope.scaling.beta_fast").value_or(32);
  rope->beta_slow = either("rope.scaling.yarn_beta_slow", "rope.scaling.beta_slow").value_or(1);
  // mscale_all_dim, where mscale is 1; of DeepSeek a tenth of it, which stands for mscale too.
  if (const auto multiplier = fields.number("rope.scaling.yarn_log_multiplier")) {
    const bool tenth = architecture.starts_with("deepseek");
    rope->mscale_all_dim = tenth ? *multiplier * 10 : *multiplier;
    rope->mscale = tenth ? rope->mscale_all_dim : 1.0;
  }
  const auto factor = either("rope.scaling.yarn_attn_factor", "rope.scaling.attn_factor");
  if (factor && *factor != 1.0) {
    rope->attention_factor = *factor * (1 + 0.1 * std::log(std::max(rope->factor, 1.0)));
  }
  return {};
}

Status read_longrope(const ArchFields& fields, const ModelConfig& config, RopeConfig* rope) {
  QUIRE_ASSIGN(const auto shorter,
               read_factors(fields.file(), "rope_factors_short.weight", rope->rotary_dim));
  QUIRE_ASSIGN(const auto longer,
               read_factors(fields.file(), "rope_factors_long.weight", rope->rotary_dim));
  if (shorter.empty() || longer.empty()) {
    return make_error(ErrorCode::kBadFile,
                      "{}: RoPE kind longrope needs the tensors \"rope_factors_short.weight\" and "
                      "\"rope_factors_long.weight\"",
                      fields.name());
  }
  rope->kind = Kind::kLongrope;
  rope->kind_name = "longrope";
  rope->short_factor.assign(shorter.begin(), shorter.end());
  rope->long_factor.assign(longer.begin(), longer.end());
  rope->factor = static_cast<double>(config.max_position) / rope->original_max_position;
  rope->attention_factor = fields.number("rope.scaling.attn_factor").value_or(1.0);
  return {};
}

Status read_kind(const ArchFields& fields, const ModelConfig& config, RopeConfig* rope) {
  const auto kind = fields.file().get_string(fields.key("rope.scaling.type"));
  // Files before rope.scaling.* have the linear factor under an older key.
  double factor = 1.0;
  QUIRE_TRY(fields.read_float("rope.scale_linear", 1.0, &factor));
  QUIRE_TRY(fields.read_float("rope.scaling.factor", factor, &factor));
  QUIRE_TRY(fields.read_float("rope.scaling.original_context_length",
                              static_cast<double>(config.max_position),
                              &rope->original_max_position));
  if (!(rope->original_max_position >= 1)) {
    return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is {}; it must be positive",
                      fields.name(), fields.key("rope.scaling.original_context_length"),
                      rope->original_max_position);
  }
  rope->kind_name = kind.value_or(factor == 1.0 ? "none" : "linear");
  if (rope->kind_name == "longrope" || fields.has_tensor("rope_factors_long.weight")) {
    return read_longrope(fields, config, rope);
  }
  if (rope->kind_name == "none") {
    rope->kind_name = "default";
    return {};
  }
  rope->factor = factor;
  if (rope->kind_name == "linear") {
    rope->kind = Kind::kLinear;
    return {};
  }
  if (rope->kind_name == "yarn") {
    rope->kind = Kind::kYarn;
    return read_yarn(fields, config.architecture, rope);
  }
  rope->kind = Kind::kUnsupported;
  return make_error(ErrorCode::kUnsupported,
                    "{}: RoPE kind \"{}\" is not supported; known: none, linear, yarn, longrope",
                    fields.name(), printable(rope->kind_name));
}

}  // namespace

Status read_gguf_rope(const ArchFields& fields, const GgufArch& arch, ModelConfig* config) {
  if (arch.rope == GgufRope::kNone) return {};
  RopeConfig& rope = config->rope;
  rope.interleaved = arch.rope != GgufRope::kHalves;
  QUIRE_TRY(fields.read_float("rope.freq_base", 10000.0, &rope.theta));
  QUIRE_TRY(fields.read_int("rope.dimension_count", config->head_dim, &rope.rotary_dim));
  if (rope.rotary_dim < 2 || rope.rotary_dim > config->head_dim || rope.rotary_dim % 2 != 0) {
    return make_error(
        ErrorCode::kBadFile,
        "{}: {} rotary dimensions; an even number from 2 to the head size {} is needed",
        fields.name(), rope.rotary_dim, config->head_dim);
  }
  QUIRE_TRY(read_kind(fields, *config, &rope));
  QUIRE_ASSIGN(rope.freq_factors,
               read_factors(fields.file(), "rope_freqs.weight", rope.rotary_dim));
  const bool gemma3 = config->architecture == "gemma3_text";
  if (!gemma3 && config->architecture != "olmo3") return {};
  // Sliding layers: a base of their own, and no scaling.
  RopeConfig& sliding = config->sliding_rope.emplace();
  sliding.interleaved = rope.interleaved;
  sliding.rotary_dim = rope.rotary_dim;
  return fields.read_float("rope.freq_base_swa", gemma3 ? 10000.0 : rope.theta, &sliding.theta);
}

}  // namespace quire
