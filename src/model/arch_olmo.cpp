// OLMo 1 (LayerNorm without parameters), OLMo 2 and 3 (norms after each part, q and k normed over
// all heads), OLMoE.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

// llama.cpp doesn't clip in OLMoE, whose GGUF doesn't say clip_qkv.
void clip(const ModelConfig& config, ModelSpec& model) {
  const auto limit = static_cast<float>(config.fields.number("clip_qkv", 0.0));
  for (LayerSpec& layer : model.layers) attention_of(layer).clip_qkv = limit;
}

void norm_all_heads(const ModelConfig& config, ModelSpec& model) {
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    attention.q_norm = rms_norm(config, "self_attn.q_norm");
    attention.k_norm = rms_norm(config, "self_attn.k_norm");
    attention.norm_all_heads = true;
  }
}

}  // namespace

Result<ModelSpec> olmo_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  NormSpec plain;
  plain.kind = NormKind::kLayer;
  plain.eps = 1e-5f;  // whatever the configuration says
  for (LayerSpec& layer : model.layers) layer.input_norm = layer.mlp_norm = plain;
  model.final_norm = plain;
  clip(config, model);
  return model;
}

// OLMo 3 is OLMo 2 with windows in three of four layers; one with yarn scales its full layers only.
Result<ModelSpec> olmo2_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  norm_all_heads(config, model);
  for (LayerSpec& layer : model.layers) {
    layer.input_norm = layer.mlp_norm = NormSpec{};
    layer.post_mixer_norm = rms_norm(config, "post_attention_layernorm");
    layer.post_mlp_norm = rms_norm(config, "post_feedforward_layernorm");
  }
  set_windows(config, model, [](std::int32_t layer) { return (layer + 1) % 4 != 0; });
  return model;
}

Result<ModelSpec> olmoe_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  norm_all_heads(config, model);
  clip(config, model);
  MoeSpec moe = moe_of(config);
  moe.normalize = config.fields.boolean("norm_topk_prob", false);
  for (LayerSpec& layer : model.layers) layer.mlp = moe;
  return model;
}

}  // namespace quire
