#include "weights/config_check.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

struct Bound {
  std::string_view what;
  std::int64_t value, limit;
};

// No rotary dimensions: a model without rotary positions.
Status check_rope(const RopeConfig& rope, std::int32_t head_dim, std::string_view name) {
  const std::int32_t rotary = rope.rotary_dim;
  if (rotary == 1 || rotary < 0 || rotary > head_dim || rotary % 2 != 0) {
    return make_error(
        ErrorCode::kBadFile,
        "{}: {} rotary dimensions; an even number from 2 to the head size {} is needed", name,
        rotary, head_dim);
  }
  if (!(rope.theta > 0 && std::isfinite(rope.theta))) {
    return make_error(ErrorCode::kBadFile, "{}: the RoPE base is {}; it must be positive", name,
                      rope.theta);
  }
  if (!(rope.factor > 0 && std::isfinite(rope.factor))) {
    return make_error(ErrorCode::kBadFile, "{}: the RoPE factor is {}; it must be positive", name,
                      rope.factor);
  }
  return {};
}

}  // namespace

Status check_sizes(const ModelConfig& config, std::string_view name) {
  const Bound bounds[] = {
      {"the vocabulary size", config.vocab_size, 1 << 24},
      {"the hidden size", config.hidden_size, 1 << 20},
      {"the intermediate size", config.intermediate_size, 1 << 24},
      {"the number of layers", config.num_layers, 4096},
      {"the number of attention heads", config.num_heads, 1 << 14},
      {"the number of key-value heads", config.num_kv_heads, 1 << 14},
      {"the head size", config.head_dim, 4096},
      {"the context length", config.max_position, std::int64_t{1} << 30},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.limit) {
      return make_error(ErrorCode::kBadFile, "{}: {} is {}; it must be from 1 to {}", name,
                        bound.what, bound.value, bound.limit);
    }
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    return make_error(ErrorCode::kBadFile,
                      "{}: {} attention heads are not a multiple of {} key-value heads", name,
                      config.num_heads, config.num_kv_heads);
  }
  return {};
}

Status check_config(const ModelConfig& config, std::string_view name) {
  QUIRE_TRY(check_sizes(config, name));
  QUIRE_TRY(check_rope(config.rope, config.head_dim, name));
  if (config.sliding_rope) QUIRE_TRY(check_rope(*config.sliding_rope, config.head_dim, name));
  if (config.sliding_window < 0) {
    return make_error(ErrorCode::kBadFile, "{}: the sliding window is {}; it must not be negative",
                      name, config.sliding_window);
  }
  if (!(config.norm_eps >= 0 && config.norm_eps < 1)) {
    return make_error(ErrorCode::kBadFile, "{}: the norm's epsilon is {}; it must be in [0, 1)",
                      name, config.norm_eps);
  }
  return {};
}

void add_eos_id(ModelConfig* config, std::int64_t id) {
  if (id < 0 || id >= config->vocab_size) return;
  const auto token = static_cast<TokenId>(id);
  const auto place = std::lower_bound(config->eos_ids.begin(), config->eos_ids.end(), token);
  if (place == config->eos_ids.end() || *place != token) config->eos_ids.insert(place, token);
}

}  // namespace quire
