// Apertus: xIELU (Huang and Schlag, 2024) with learned alphas, q and k normed per head.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

Result<ModelSpec> apertus_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kXielu));
  ModelSpec model = llama_like(config);
  use_plain_mlp(model, "mlp.up_proj", "mlp.down_proj", activation);
  for (LayerSpec& layer : model.layers) {
    layer.input_norm = rms_norm(config, "attention_layernorm");
    layer.mlp_norm = rms_norm(config, "feedforward_layernorm");
    attention_of(layer).q_norm = rms_norm(config, "self_attn.q_norm");
    attention_of(layer).k_norm = rms_norm(config, "self_attn.k_norm");
    mlp_of(layer).xielu = "mlp.act_fn";
  }
  return model;
}

}  // namespace quire
