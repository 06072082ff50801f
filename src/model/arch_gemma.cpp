// Gemma 1, 2 and 3: norms that multiply by 1 + w (a GGUF's weights include the 1), embeddings
// scaled by sqrt(hidden), tanh gelu whatever the configuration calls it.
#include <cmath>

#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

NormSpec gemma_norm(const ModelConfig& config, std::string name) {
  NormSpec norm = rms_norm(config, std::move(name));
  norm.offset = config.from_gguf ? 0.0f : 1.0f;
  return norm;
}

ModelSpec gemma_decoder(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  model.embedding_multiplier = std::sqrt(static_cast<float>(config.hidden_size));
  for (LayerSpec& layer : model.layers) {
    layer.input_norm = gemma_norm(config, "input_layernorm");
    layer.mlp_norm = gemma_norm(config, "post_attention_layernorm");
    mlp_of(layer).activation = ActivationKind::kGeluTanh;
  }
  model.final_norm = gemma_norm(config, "model.norm");
  return model;
}

// Gemma 2 and 3: norms around both parts of a layer, scale by query_pre_attn_scalar (a GGUF folds
// or implies it).
ModelSpec gemma_sandwich(const ModelConfig& config) {
  ModelSpec model = gemma_decoder(config);
  model.logit_soft_cap = static_cast<float>(config.fields.number("final_logit_softcapping", 0.0));
  const double scalar = config.fields.number("query_pre_attn_scalar", config.head_dim);
  for (LayerSpec& layer : model.layers) {
    layer.post_mixer_norm = gemma_norm(config, "post_attention_layernorm");
    layer.mlp_norm = gemma_norm(config, "pre_feedforward_layernorm");
    layer.post_mlp_norm = gemma_norm(config, "post_feedforward_layernorm");
    AttentionSpec& attention = attention_of(layer);
    attention.scale = static_cast<float>(1.0 / std::sqrt(scalar));
    attention.soft_cap = static_cast<float>(config.fields.number("attn_logit_softcapping", 0.0));
  }
  return model;
}

}  // namespace

Result<ModelSpec> gemma_spec(const ModelConfig& config) { return gemma_decoder(config); }

Result<ModelSpec> gemma2_spec(const ModelConfig& config) {
  ModelSpec model = gemma_sandwich(config);
  set_windows(config, model, [](std::int32_t layer) { return layer % 2 == 0; });
  return model;
}

// Every sixth layer sees everything and has a rotary base of its own.
Result<ModelSpec> gemma3_spec(const ModelConfig& config) {
  ModelSpec model = gemma_sandwich(config);
  for (LayerSpec& layer : model.layers) {
    attention_of(layer).q_norm = gemma_norm(config, "self_attn.q_norm");
    attention_of(layer).k_norm = gemma_norm(config, "self_attn.k_norm");
  }
  const std::int64_t pattern =
      period_of(config, {"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  set_windows(config, model, [&](std::int32_t layer) { return (layer + 1) % pattern != 0; });
  return model;
}

}  // namespace quire
