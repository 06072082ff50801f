// Cohere Command R and Command R7B (Cohere 2): attention and MLP side by side behind one LayerNorm,
// interleaved rotary positions, scaled logits.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

Result<ModelSpec> cohere_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  use_layer_norms(config, model, false);
  model.ropes[0].interleaved = true;
  model.logit_multiplier = static_cast<float>(config.fields.number("logit_scale", 0.0625));
  for (LayerSpec& layer : model.layers) {
    layer.parallel = true;
    layer.mlp_norm = NormSpec{};
    if (config.fields.boolean("use_qk_norm", false)) {
      AttentionSpec& attention = attention_of(layer);
      attention.q_norm = layer_norm(config, "self_attn.q_norm", false);
      attention.k_norm = layer_norm(config, "self_attn.k_norm", false);
      attention.norm_per_head_weights = true;
    }
  }
  return model;
}

// Every fourth layer sees everything and has no positions.
Result<ModelSpec> cohere2_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, cohere_spec(config));
  const std::int64_t pattern =
      period_of(config, {"sliding_window_pattern", "_sliding_window_pattern"}, 4);
  set_windows(config, model, [&](std::int32_t layer) { return (layer + 1) % pattern != 0; });
  for (LayerSpec& layer : model.layers) {
    if (attention_of(layer).window == 0) attention_of(layer).rope = -1;
  }
  return model;
}

}  // namespace quire
