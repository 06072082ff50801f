// Apertus: xIELU (Huang and Schlag, 2024) with learned alphas, q and k normed per head.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

Result<ModelSpec> apertus_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kXielu));
  ModelSpec model = llama_like(config);
  use_plain_mlp(model, "mlp.up_proj", "mlp.down_proj", activation);
  std::vector<std::vector<double>> values;  // a GGUF has them in its metadata, one per layer
  for (const char* name : {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"}) {
    values.push_back(config.fields.numbers(name));
    if (config.from_gguf && values.back().size() != model.layers.size()) {
      return make_error(ErrorCode::kBadFile, "{} has {} values, the model {} layers", name,
                        values.back().size(), model.layers.size());
    }
  }
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerSpec& layer = model.layers[i];
    layer.input_norm = rms_norm(config, "attention_layernorm");
    layer.mlp_norm = rms_norm(config, "feedforward_layernorm");
    attention_of(layer).q_norm = rms_norm(config, "self_attn.q_norm");
    attention_of(layer).k_norm = rms_norm(config, "self_attn.k_norm");
    mlp_of(layer).xielu = "mlp.act_fn";
    if (!config.from_gguf) continue;
    for (const std::vector<double>& value : values) {
      mlp_of(layer).xielu_values.push_back(static_cast<float>(value[i]));
    }
  }
  return model;
}

}  // namespace quire
