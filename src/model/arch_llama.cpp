// Llama 2 and 3, SmolLM2, Mistral: pre-norm decoder with grouped-query attention, rotary positions and a gated MLP.
#include "model/architectures.h"

namespace quire {

Result<ModelSpec> llama_spec(const ModelConfig& config) {
  ModelSpec model;
  model.vocab_size = config.vocab_size;
  model.hidden_size = config.hidden_size;
  model.ropes = {config.rope};
  const auto norm = [&](std::string name) {
    NormSpec spec;
    spec.kind = NormKind::kRms;
    spec.name = std::move(name);
    spec.eps = static_cast<float>(config.norm_eps);
    return spec;
  };
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    LayerSpec layer;
    layer.prefix = "model.layers." + std::to_string(i) + ".";
    layer.input_norm = norm("input_layernorm");
    layer.mlp_norm = norm("post_attention_layernorm");
    AttentionSpec attention;
    attention.q_heads = config.num_heads;
    attention.kv_heads = config.num_kv_heads;
    attention.head_dim = config.head_dim;
    attention.rope = 0;
    attention.window = config.sliding_window;
    attention.require_qkv_bias = config.attention_bias;
    layer.mixer = attention;
    MlpSpec mlp;
    mlp.intermediate = static_cast<std::int32_t>(config.intermediate_size);
    mlp.require_bias = config.mlp_bias;
    layer.mlp = mlp;
    model.layers.push_back(std::move(layer));
  }
  model.final_norm = norm("model.norm");
  model.tied_head = config.tied_embeddings;
  return model;
}

}  // namespace quire
