// Phi 1 to 2, Phi 3 and 4 (fused matrices), Phi 3.5 MoE.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

// Attention and MLP side by side behind one norm, biases everywhere.
Result<ModelSpec> phi_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kGeluTanh));
  use_layer_norms(config, model);
  use_plain_mlp(model, "mlp.fc1", "mlp.fc2", activation);
  for (LayerSpec& layer : model.layers) {
    layer.parallel = true;
    layer.mlp_norm = NormSpec{};
    AttentionSpec& attention = attention_of(layer);
    attention.output = "self_attn.dense";
    attention.require_qkv_bias = attention.require_output_bias = true;
    if (config.fields.boolean("qk_layernorm", false)) {
      attention.q_norm = layer_norm(config, "self_attn.q_layernorm");
      attention.k_norm = layer_norm(config, "self_attn.k_layernorm");
    }
  }
  model.final_norm = layer_norm(config, "model.final_layernorm");
  model.head_bias = true;
  return model;
}

// llama.cpp runs the GGUFs of this family without their window.
Result<ModelSpec> phi3_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    attention.layout = QkvLayout::kFused;
    attention.window = config.from_gguf ? 0 : config.sliding_window;
    mlp_of(layer).fused_gate_up = "mlp.gate_up_proj";
  }
  return model;
}

// llama.cpp routes by softmax and norms by RMS (with a bias): its GGUFs are served as it serves
// them.
Result<ModelSpec> phimoe_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  use_layer_norms(config, model);
  for (LayerSpec& layer : model.layers) {
    if (config.from_gguf) layer.input_norm.kind = layer.mlp_norm.kind = NormKind::kRms;
    MoeSpec moe = moe_of(config);
    moe.score = config.from_gguf ? RouterScore::kSoftmaxOfTopK : RouterScore::kSparseMixer;
    moe.jitter = static_cast<float>(config.fields.number("router_jitter_noise", 0.01));
    moe.router = "block_sparse_moe.gate";
    moe.expert_prefix = "block_sparse_moe.experts";
    moe.expert.gate = "w1";
    moe.expert.up = "w3";
    moe.expert.down = "w2";
    layer.mlp = moe;
  }
  if (config.from_gguf) model.final_norm.kind = NormKind::kRms;
  model.head_bias = config.from_gguf || config.fields.boolean("lm_head_bias", false);
  return model;
}

}  // namespace quire
