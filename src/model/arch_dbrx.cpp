// DBRX: fused and clipped q, k, v, LayerNorms without bias, experts stacked along their rows (w1
// gate, v1 up, w2 down).
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

Result<ModelSpec> dbrx_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  set_layer_prefix(model, "transformer.blocks.");
  MoeSpec moe = moe_of(config);
  moe.experts =
      static_cast<std::int32_t>(first_integer(config, {"ffn_config.moe_num_experts"}, moe.experts));
  moe.top_k = static_cast<std::int32_t>(first_integer(config, {"ffn_config.moe_top_k"}, moe.top_k));
  moe.intermediate = static_cast<std::int32_t>(
      first_integer(config, {"ffn_config.ffn_hidden_size"}, moe.intermediate));
  moe.expert = gated_mlp("", moe.intermediate);
  moe.normalize = config.fields.number("ffn_config.moe_normalize_expert_weights", 1.0) > 0.0;
  moe.router = "ffn.router.layer";
  moe.expert_prefix = "ffn.experts";
  if (!config.from_gguf) {
    moe.storage = ExpertStorage::kStacked;
    moe.expert_prefix = "ffn.experts.mlp";
    moe.expert_suffix.clear();
    moe.expert.gate = "w1";
    moe.expert.up = "v1";
    moe.expert.down = "w2";
    moe.down_transposed = true;
  }
  const double clip =
      config.fields.number("clip_qkv", config.fields.number("attn_config.clip_qkv", 0.0));
  for (LayerSpec& layer : model.layers) {
    layer.input_norm.name = "norm_attn_norm.norm_1";
    layer.mlp_norm.name = "norm_attn_norm.norm_2";
    AttentionSpec& attention = attention_of(layer);
    attention.layout = QkvLayout::kFused;
    attention.qkv = "norm_attn_norm.attn.Wqkv";
    attention.output = "norm_attn_norm.attn.out_proj";
    attention.clip_qkv = static_cast<float>(clip);
    layer.mlp = moe;
  }
  model.embedding = "transformer.wte";
  model.final_norm.name = "transformer.norm_f";
  use_layer_norms(config, model, false);
  constexpr float kNormEps = 1e-5f;  // torch's default: the configuration has none
  for (LayerSpec& layer : model.layers) layer.input_norm.eps = layer.mlp_norm.eps = kNormEps;
  model.final_norm.eps = kNormEps;
  return model;
}

}  // namespace quire
