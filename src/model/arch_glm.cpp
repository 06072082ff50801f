// GLM 4 (9B), GLM 4 0414 (norms around both parts), GLM 4.5 (experts).
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

// Interleaved rotary positions on half of each head; gate and up in one matrix.
Result<ModelSpec> glm_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  model.ropes[0].interleaved = true;
  for (LayerSpec& layer : model.layers) {
    attention_of(layer).require_output_bias = false;  // attention_bias is of q, k and v
    mlp_of(layer).fused_gate_up = "mlp.gate_up_proj";
  }
  return model;
}

Result<ModelSpec> glm4_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, glm_spec(config));
  for (LayerSpec& layer : model.layers) {
    layer.post_mixer_norm = rms_norm(config, "post_self_attn_layernorm");
    layer.post_mlp_norm = rms_norm(config, "post_mlp_layernorm");
  }
  return model;
}

// Rotary halves, optional norms of q and k, DeepSeek V3's experts.
Result<ModelSpec> glm4_moe_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  const MoeSpec moe = sigmoid_moe_of(config);
  const std::int64_t dense = config.fields.integer("first_k_dense_replace", 1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerSpec& layer = model.layers[i];
    AttentionSpec& attention = attention_of(layer);
    attention.require_output_bias = false;
    if (config.fields.boolean("use_qk_norm", false)) {
      attention.q_norm = rms_norm(config, "self_attn.q_norm");
      attention.k_norm = rms_norm(config, "self_attn.k_norm");
    }
    if (static_cast<std::int64_t>(i) >= dense) layer.mlp = moe;
  }
  return model;
}

}  // namespace quire
