// EXAONE 4: norms after each part, q and k normed per head; where there are windows, the full
// layers have no positions.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

Result<ModelSpec> exaone4_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  for (LayerSpec& layer : model.layers) {
    layer.input_norm = layer.mlp_norm = NormSpec{};
    layer.post_mixer_norm = rms_norm(config, "post_attention_layernorm");
    layer.post_mlp_norm = rms_norm(config, "post_feedforward_layernorm");
    AttentionSpec& attention = attention_of(layer);
    attention.q_norm = rms_norm(config, "self_attn.q_norm");
    attention.k_norm = rms_norm(config, "self_attn.k_norm");
  }
  constexpr std::int32_t kLayersWithWindows = 64;  // llama.cpp knows windows in the 32B model only
  if (config.sliding_window <= 0 || (config.from_gguf && config.num_layers != kLayersWithWindows)) {
    for (LayerSpec& layer : model.layers) attention_of(layer).window = 0;
    return model;
  }
  // The pattern is a period, or letters such as "LLLG".
  const std::string letters = config.fields.text("sliding_window_pattern", "");
  const std::int64_t period = letters.empty() ? period_of(config, {"sliding_window_pattern"}, 4)
                                              : static_cast<std::int64_t>(letters.size());
  set_windows(config, model, [&](std::int32_t layer) { return (layer + 1) % period != 0; });
  for (LayerSpec& layer : model.layers) {
    if (attention_of(layer).window == 0) attention_of(layer).rope = -1;
  }
  return model;
}

}  // namespace quire
