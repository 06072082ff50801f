// Rotary positions of a Hugging Face model, in both spellings: rope_theta + rope_scaling of older
// files, rope_parameters of newer ones, the latter also nested per layer type.
#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <limits>

#include "base/log.h"
#include "weights/checked.h"
#include "weights/hf_parts.h"

namespace quire {
namespace json = boost::json;

namespace {

using Kind = RopeConfig::Kind;

struct KindName {
  std::string_view name;
  Kind kind;
};
constexpr KindName kKinds[] = {
    {"default", Kind::kDefault}, {"mrope", Kind::kDefault},     {"proportional", Kind::kDefault},
    {"linear", Kind::kLinear},   {"dynamic", Kind::kDynamic},   {"llama3", Kind::kLlama3},
    {"yarn", Kind::kYarn},       {"longrope", Kind::kLongrope}, {"su", Kind::kLongrope},
};

Status read_kind(const JsonFields& scaling, RopeConfig* rope) {
  QUIRE_ASSIGN(const auto kind, scaling.get_string(spelled(scaling, {"rope_type", "type"})));
  rope->kind_name = kind.value_or("default");
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const KindName& each) {
    return each.name == rope->kind_name;
  });
  if (found == std::end(kKinds)) {
    rope->kind = Kind::kUnsupported;
    return make_error(ErrorCode::kUnsupported,
                      "{}: RoPE kind \"{}\" is not supported; known: default, linear, dynamic, "
                      "llama3, yarn, longrope, proportional",
                      scaling.name(), printable(rope->kind_name));
  }
  rope->kind = found->kind;
  return {};
}

Result<std::vector<double>> number_list(const JsonFields& fields, std::string_view key) {
  std::vector<double> numbers;
  const json::value* list = fields.find(key);
  if (list == nullptr) return numbers;
  const auto bad = [&] {
    return make_error(ErrorCode::kBadFile, "{}: \"{}\" is not a list of positive numbers",
                      fields.name(), key);
  };
  if (!list->is_array()) return bad();
  for (const json::value& item : list->get_array()) {
    if (!item.is_number()) return bad();
    numbers.push_back(item.to_number<double>());
    if (!(numbers.back() > 0 && std::isfinite(numbers.back()))) return bad();
  }
  return numbers;
}

Status check_llama3(const JsonFields& scaling, const RopeConfig& rope) {
  if (rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor &&
      rope.original_max_position >= 1) {
    return {};
  }
  return make_error(ErrorCode::kBadFile,
                    "{}: llama3 RoPE needs 0 < low_freq_factor < high_freq_factor and a positive "
                    "original_max_position_embeddings; they are {}, {} and {}",
                    scaling.name(), rope.low_freq_factor, rope.high_freq_factor,
                    rope.original_max_position);
}

Status read_longrope(const JsonFields& scaling, const ModelConfig& config, RopeConfig* rope) {
  // As transformers: the factor is max / original whatever the file says.
  rope->factor = static_cast<double>(config.max_position) / rope->original_max_position;
  QUIRE_ASSIGN(rope->short_factor, number_list(scaling, "short_factor"));
  QUIRE_ASSIGN(rope->long_factor, number_list(scaling, "long_factor"));
  QUIRE_ASSIGN(rope->short_mscale, scaling.get_number("short_mscale"));
  QUIRE_ASSIGN(rope->long_mscale, scaling.get_number("long_mscale"));
  const auto pairs = static_cast<std::size_t>(rope->rotary_dim / 2);
  if (rope->short_factor.size() == pairs && rope->long_factor.size() == pairs) return {};
  return make_error(ErrorCode::kBadFile,
                    "{}: longrope has {} short and {} long factors; {} rotary pairs need {} each",
                    scaling.name(), rope->short_factor.size(), rope->long_factor.size(), pairs,
                    pairs);
}

Status read_yarn(const JsonFields& scaling, RopeConfig* rope) {
  QUIRE_TRY(read_number(scaling, "beta_fast", &rope->beta_fast));
  QUIRE_TRY(read_number(scaling, "beta_slow", &rope->beta_slow));
  QUIRE_TRY(read_number(scaling, "mscale", &rope->mscale));
  QUIRE_TRY(read_number(scaling, "mscale_all_dim", &rope->mscale_all_dim));
  QUIRE_ASSIGN(const auto truncate, scaling.get_bool("truncate"));
  rope->truncate = truncate.value_or(true);
  return {};
}

// Hunyuan: "dynamic" with alpha is a constant change of base, and nothing else.
Status fold_alpha(double alpha, RopeConfig* rope) {
  const double dim = rope->rotary_dim;
  rope->theta *= std::pow(alpha, dim / (dim - 2));
  rope->kind = Kind::kDefault;
  rope->factor = 1.0;
  return {};
}

// The numbers of the kind that `scaling` names. top: where older files have the original length.
Status read_scaling(const JsonFields& scaling, const JsonFields& top, const ModelConfig& config,
                    RopeConfig* rope) {
  QUIRE_TRY(read_kind(scaling, rope));
  if (rope->kind == Kind::kDefault) return {};
  rope->original_max_position = static_cast<double>(config.max_position);
  if (rope->kind == Kind::kLongrope) {
    QUIRE_TRY(read_number(top, "original_max_position_embeddings", &rope->original_max_position));
  }
  if (rope->kind != Kind::kDynamic) {
    QUIRE_TRY(
        read_number(scaling, "original_max_position_embeddings", &rope->original_max_position));
  }
  if (!(rope->original_max_position >= 1) && rope->kind != Kind::kLlama3) {
    return make_error(ErrorCode::kBadFile,
                      "{}: original_max_position_embeddings is {}; it must be positive",
                      scaling.name(), rope->original_max_position);
  }
  QUIRE_ASSIGN(rope->attention_factor, scaling.get_number("attention_factor"));
  if (rope->kind == Kind::kLongrope) return read_longrope(scaling, config, rope);
  QUIRE_ASSIGN(const auto alpha, scaling.get_number("alpha"));
  if (rope->kind == Kind::kDynamic && alpha.value_or(0) > 0) return fold_alpha(*alpha, rope);
  rope->factor = 0;  // required: check_config refuses 0
  QUIRE_TRY(read_number(scaling, "factor", &rope->factor));
  if (rope->kind == Kind::kYarn) return read_yarn(scaling, rope);
  if (rope->kind != Kind::kLlama3) return {};
  QUIRE_TRY(read_number(scaling, "low_freq_factor", &rope->low_freq_factor));
  QUIRE_TRY(read_number(scaling, "high_freq_factor", &rope->high_freq_factor));
  return check_llama3(scaling, *rope);
}

// How many elements of a head rotate: a share, a number, or the rotary half of an MLA head.
Status read_rotary_dim(const JsonFields& top, const JsonFields* scaling, const ModelConfig& config,
                       RopeConfig* rope) {
  double share = 1.0;
  QUIRE_TRY(read_number(top, spelled(top, {"partial_rotary_factor", "rotary_pct"}), &share));
  if (scaling != nullptr) QUIRE_TRY(read_number(*scaling, "partial_rotary_factor", &share));
  if (!(share > 0 && share <= 1)) {
    return make_error(ErrorCode::kBadFile, "{}: partial_rotary_factor is {}; it must be in (0, 1]",
                      top.name(), share);
  }
  rope->rotary_dim = static_cast<std::int32_t>(config.head_dim * share);
  QUIRE_ASSIGN(const auto dim, top.get_int(spelled(top, {"qk_rope_head_dim", "rotary_dim"})));
  if (!dim) return {};
  if (*dim < 2 || *dim > config.head_dim) {
    return make_error(ErrorCode::kBadFile, "{}: {} rotary dimensions of a head of {}", top.name(),
                      *dim, config.head_dim);
  }
  rope->rotary_dim = static_cast<std::int32_t>(*dim);
  return {};
}

// Proportional: frequencies as of a whole head, those beyond the share stand still.
void spread_proportional(const ModelConfig& config, RopeConfig* rope) {
  const auto turning = static_cast<std::size_t>(rope->rotary_dim / 2);
  rope->rotary_dim = config.head_dim;
  rope->freq_factors.assign(static_cast<std::size_t>(config.head_dim / 2),
                            std::numeric_limits<float>::infinity());
  std::fill_n(rope->freq_factors.begin(), std::min(turning, rope->freq_factors.size()), 1.0f);
}

// scaling: rope_scaling or (part of) rope_parameters; nullptr: none.
Status read_one_rope(const HfSource& source, const json::object* scaling, const ModelConfig& config,
                     RopeConfig* rope) {
  const JsonFields& top = source.fields;
  rope->interleaved = source.family.interleaved;
  QUIRE_ASSIGN(const auto interleave, top.get_bool("rope_interleave"));
  if (interleave) rope->interleaved = *interleave;
  QUIRE_TRY(read_number(top, spelled(top, {"rope_theta", "rotary_emb_base"}), &rope->theta));
  if (scaling == nullptr) return read_rotary_dim(top, nullptr, config, rope);
  const JsonFields scaling_fields(*scaling, top.name());
  QUIRE_TRY(read_number(scaling_fields, "rope_theta", &rope->theta));
  QUIRE_TRY(read_rotary_dim(top, &scaling_fields, config, rope));
  QUIRE_TRY(read_scaling(scaling_fields, top, config, rope));
  if (rope->kind_name == "proportional") {
    rope->factor = 1.0;
    QUIRE_TRY(read_number(scaling_fields, "factor", &rope->factor));
    if (rope->factor != 1.0) rope->kind = Kind::kLinear;
    spread_proportional(config, rope);
  }
  return {};
}

// A file with both spellings is read by the newer one; what the older one says otherwise is told.
void warn_of_unread(const JsonFields& top) {
  const json::value* newer = top.find("rope_parameters");
  const json::value* older = top.find("rope_scaling");
  if (newer == nullptr || older == nullptr || !newer->is_object() || !older->is_object()) return;
  const json::object* read = &newer->get_object();
  if (const json::value* full = read->if_contains("full_attention"); full && full->is_object())
    read = &full->get_object();
  for (const auto& entry : older->get_object()) {
    const json::value* value =
        read->if_contains(entry.key() == "type" ? json::string_view("rope_type") : entry.key());
    if (value != nullptr && *value == entry.value()) continue;
    return log_warning(
        "{}: \"rope_parameters\" is read; \"rope_scaling\", which differs from it in "
        "\"{}\", is not",
        top.name(), std::string_view(entry.key()));
  }
}

}  // namespace

Status read_hf_rope(const HfSource& source, ModelConfig* config) {
  if (!source.family.rotary) return {};
  const JsonFields& top = source.fields;
  warn_of_unread(top);
  QUIRE_ASSIGN(const json::object* scaling,
               top.get_object(spelled(top, {"rope_parameters", "rope_scaling"})));
  const json::value* full = scaling == nullptr ? nullptr : scaling->if_contains("full_attention");
  const json::value* sliding =
      scaling == nullptr ? nullptr : scaling->if_contains("sliding_attention");
  const bool per_type = full != nullptr && full->is_object();
  QUIRE_TRY(
      read_one_rope(source, per_type ? &full->get_object() : scaling, *config, &config->rope));
  if (per_type && sliding != nullptr && sliding->is_object()) {
    config->sliding_rope.emplace();
    return read_one_rope(source, &sliding->get_object(), *config, &*config->sliding_rope);
  }
  if (per_type) return {};
  // Older Gemma 3 and OLMo 3: the scaling is of full layers only.
  const bool local = top.find("rope_local_base_freq") != nullptr;
  if (!local && (source.model_type != "olmo3" || scaling == nullptr)) return {};
  config->sliding_rope.emplace();
  QUIRE_TRY(read_one_rope(source, nullptr, *config, &*config->sliding_rope));
  config->sliding_rope->theta = local ? config->sliding_rope->theta : config->rope.theta;
  return read_number(top, "rope_local_base_freq", &config->sliding_rope->theta);
}

}  // namespace quire
