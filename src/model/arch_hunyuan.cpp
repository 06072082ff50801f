// Hunyuan, dense and with experts: q and k normed per head after the rotation.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

Result<ModelSpec> hunyuan_dense_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    attention.q_norm = rms_norm(config, "self_attn.query_layernorm");
    attention.k_norm = rms_norm(config, "self_attn.key_layernorm");
    attention.norm_after_rope = true;
  }
  return model;
}

// Softmax over all experts, the chosen ones normalised, and a shared MLP.
Result<ModelSpec> hunyuan_moe_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, hunyuan_dense_spec(config));
  MoeSpec moe = moe_of(config);
  moe.normalize = true;
  moe.router = "mlp.gate.wg";
  moe.has_shared = true;
  moe.shared = gated_mlp(
      "mlp.shared_mlp",
      first_integer(config, {"shared_expert_intermediate_size"}, config.intermediate_size));
  for (LayerSpec& layer : model.layers) layer.mlp = moe;
  return model;
}

}  // namespace quire
