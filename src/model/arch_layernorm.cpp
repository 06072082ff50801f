// Llama's shape with LayerNorms: StarCoder 2, StableLM, Nemotron.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

// llama.cpp runs the GGUFs of this family without their window.
Result<ModelSpec> starcoder2_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kGeluTanh));
  ModelSpec model = llama_like(config);
  use_layer_norms(config, model);
  use_plain_mlp(model, "mlp.c_fc", "mlp.c_proj", activation);
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    attention.window = config.from_gguf ? 0 : config.sliding_window;
    attention.require_qkv_bias = attention.require_output_bias = mlp_of(layer).require_bias =
        config.fields.boolean("use_bias", true);
  }
  return model;
}

// In sequence, or parallel behind one norm; optional norms of q and k, each head with weights of
// its own.
Result<ModelSpec> stablelm_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kSilu));
  ModelSpec model = llama_like(config);
  use_layer_norms(config, model);
  for (LayerSpec& layer : model.layers) {
    mlp_of(layer).activation = activation;
    layer.parallel = config.fields.boolean("use_parallel_residual", false);
    if (layer.parallel) layer.mlp_norm = NormSpec{};
    AttentionSpec& attention = attention_of(layer);
    attention.require_qkv_bias = config.fields.boolean("use_qkv_bias", false);
    if (config.fields.boolean("qk_layernorm", false)) {
      attention.q_norm = layer_norm(config, "self_attn.q_layernorm", false);
      attention.k_norm = layer_norm(config, "self_attn.k_layernorm", false);
      attention.norm_per_head_weights = true;
    }
  }
  return model;
}

// Norms multiply by 1 + w (a GGUF's weights include the 1); the MLP is relu(up(x))^2.
Result<ModelSpec> nemotron_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kRelu2));
  ModelSpec model = llama_like(config);
  use_layer_norms(config, model);
  use_plain_mlp(model, "mlp.up_proj", "mlp.down_proj", activation);
  const float offset = config.from_gguf ? 0.0f : 1.0f;
  for (LayerSpec& layer : model.layers) layer.input_norm.offset = layer.mlp_norm.offset = offset;
  model.final_norm.offset = offset;
  return model;
}

}  // namespace quire
