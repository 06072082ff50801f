// What each layer of a Hugging Face model attends to: layer_types as the file has them, or as older
// files imply them, and the window of the sliding ones.
#include <algorithm>
#include <boost/json/array.hpp>
#include <limits>
#include <utility>

#include "weights/checked.h"
#include "weights/hf_parts.h"

namespace quire {
namespace json = boost::json;

namespace {

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";
constexpr const char* kChunked = "chunked_attention";
constexpr const char* kLinear = "linear_attention";

Status read_explicit_types(const JsonFields& fields, ModelConfig* config) {
  const json::value* list = fields.find("layer_types");
  if (list == nullptr) return {};
  const auto bad = [&] {
    return make_error(ErrorCode::kBadFile, "{}: \"layer_types\" is not a list of names",
                      fields.name());
  };
  if (!list->is_array()) return bad();
  for (const json::value& item : list->get_array()) {
    if (!item.is_string()) return bad();
    config->layer_types.emplace_back(item.get_string());
  }
  // More than the layers is fine: multi-token prediction layers have types too.
  if (config->layer_types.size() < static_cast<std::size_t>(config->num_layers)) {
    return make_error(ErrorCode::kBadFile, "{}: {} layer_types for {} layers", fields.name(),
                      config->layer_types.size(), config->num_layers);
  }
  config->layer_types.resize(static_cast<std::size_t>(config->num_layers));
  return {};
}

// The type of every layer by a rule of its number.
template <class Rule>
void set_types(ModelConfig* config, Rule rule) {
  for (std::int64_t i = 0; i < config->num_layers; ++i) config->layer_types.emplace_back(rule(i));
}

// sliding_window_pattern: every n-th layer is full; or EXAONE's "LLLG": L(ocal), G(lobal).
Status read_pattern(const JsonFields& fields, ModelConfig* config) {
  const std::string_view key =
      spelled(fields, {"_sliding_window_pattern", "sliding_window_pattern"});
  const json::value* value = fields.find(key);
  if (value != nullptr && value->is_string()) {
    const std::string text(value->get_string());
    if (text.empty()) return {};
    set_types(config, [&](std::int64_t i) {
      const bool last = i + 1 == config->num_layers;
      const bool local = text[static_cast<std::size_t>(i) % text.size()] == 'L';
      return local && !last ? kSliding : kFull;
    });
    return {};
  }
  QUIRE_ASSIGN(const auto every, fields.get_int(key));
  if (!every || *every < 1) return {};
  set_types(config, [&](std::int64_t i) { return (i + 1) % *every != 0 ? kSliding : kFull; });
  return {};
}

// Lists of layers: no_rope_layers has 1 for a layer with rotary; or every interval-th has none.
Result<std::vector<bool>> layers_with_rope(const JsonFields& fields, const ModelConfig& config) {
  QUIRE_ASSIGN(const auto list, fields.get_ints("no_rope_layers"));
  QUIRE_ASSIGN(const auto interval, fields.get_int("no_rope_layer_interval"));
  std::vector<bool> with_rope;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const bool listed = index < list.size();
    with_rope.push_back(listed ? list[index] != 0
                               : !interval || *interval < 1 || (i + 1) % *interval != 0);
  }
  return with_rope;
}

Status read_after_max(const JsonFields& fields, ModelConfig* config) {
  QUIRE_ASSIGN(const auto first, fields.get_int("max_window_layers"));
  set_types(config, [&](std::int64_t i) { return i >= first.value_or(0) ? kSliding : kFull; });
  return {};
}

Status read_implied_types(const HfSource& source, bool use_window, ModelConfig* config) {
  const JsonFields& fields = source.fields;
  switch (source.family.window) {
    case WindowRule::kNone:
    case WindowRule::kEveryLayer:
      return {};
    case WindowRule::kUseFlag:
    case WindowRule::kAfterMax:
      return use_window ? read_after_max(fields, config) : Status{};
    case WindowRule::kPattern:
      return use_window ? read_pattern(fields, config) : Status{};
    case WindowRule::kRopeLayers: {
      if (!use_window) return {};
      QUIRE_ASSIGN(const std::vector<bool> rope, layers_with_rope(fields, *config));
      set_types(config, [&](std::int64_t i) {
        return rope[static_cast<std::size_t>(i)] ? kFull : kSliding;
      });
      return {};
    }
    case WindowRule::kChunked: {
      QUIRE_ASSIGN(const std::vector<bool> rope, layers_with_rope(fields, *config));
      set_types(config, [&](std::int64_t i) {
        return rope[static_cast<std::size_t>(i)] ? kChunked : kFull;
      });
      return {};
    }
    case WindowRule::kLinear: {
      QUIRE_ASSIGN(const auto interval, fields.get_int("full_attention_interval"));
      const std::int64_t every = std::max<std::int64_t>(interval.value_or(4), 1);
      set_types(config, [&](std::int64_t i) { return (i + 1) % every != 0 ? kLinear : kFull; });
      return {};
    }
    case WindowRule::kConv: {
      QUIRE_ASSIGN(const std::vector<std::int64_t> full, fields.get_ints("full_attn_idxs"));
      set_types(config, [&](std::int64_t i) {
        return std::find(full.begin(), full.end(), i) != full.end() ? kFull : "conv";
      });
      return {};
    }
    case WindowRule::kMambaPeriod: {
      QUIRE_ASSIGN(const auto period, fields.get_int("attn_layer_period"));
      QUIRE_ASSIGN(const auto offset, fields.get_int("attn_layer_offset"));
      const std::int64_t every = std::max<std::int64_t>(period.value_or(8), 1);
      set_types(config,
                [&](std::int64_t i) { return i % every == offset.value_or(4) ? kFull : "mamba"; });
      return {};
    }
  }
  return {};
}

}  // namespace

Status read_hf_layers(const HfSource& source, ModelConfig* config) {
  const JsonFields& fields = source.fields;
  QUIRE_ASSIGN(const auto window, fields.get_int("sliding_window"));
  if (window && !std::in_range<std::int32_t>(*window)) {
    return make_error(ErrorCode::kBadFile, "{}: \"sliding_window\" is {}, the limit is {}",
                      fields.name(), *window, std::numeric_limits<std::int32_t>::max());
  }
  QUIRE_ASSIGN(const auto flag, fields.get_bool("use_sliding_window"));
  const WindowRule rule = source.family.window;
  const bool flag_needed = rule == WindowRule::kUseFlag || rule == WindowRule::kRopeLayers;
  const bool use_window = window.value_or(0) != 0 && flag.value_or(!flag_needed);
  QUIRE_TRY(read_explicit_types(fields, config));
  if (config->layer_types.empty()) QUIRE_TRY(read_implied_types(source, use_window, config));
  const auto& types = config->layer_types;
  const bool sliding = types.empty()
                           ? rule == WindowRule::kEveryLayer
                           : std::find(types.begin(), types.end(), kSliding) != types.end();
  if (sliding && use_window) config->sliding_window = static_cast<std::int32_t>(*window);
  // Types that are all full say nothing.
  if (std::all_of(types.begin(), types.end(), [](const auto& type) { return type == kFull; })) {
    config->layer_types.clear();
  }
  return {};
}

}  // namespace quire
