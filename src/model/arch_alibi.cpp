// BLOOM, MPT and Falcon: fused q, k, v; ALiBi in the first two and in some Falcons.
#include <cmath>

#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

// MPT's order of slopes for a head count that isn't a power of two: every other one of the next
// power's, odd ones first.
std::vector<float> mpt_slopes(std::int32_t heads, double max_bias) {
  std::int32_t power = 1;
  while (power < heads) power *= 2;
  std::vector<float> all = alibi_slopes(power, max_bias);
  if (power == heads) return all;
  std::vector<float> slopes;
  for (std::size_t start : {1u, 0u}) {
    for (std::size_t i = start; i < all.size(); i += 2) slopes.push_back(all[i]);
  }
  slopes.resize(static_cast<std::size_t>(heads));
  return slopes;
}

void use_alibi(ModelSpec& model, const std::vector<float>& slopes) {
  model.ropes.clear();
  for (LayerSpec& layer : model.layers) {
    attention_of(layer).rope = -1;
    attention_of(layer).alibi_slopes = slopes;
  }
}

// "transformer.h.N." as BLOOM and Falcon name it.
ModelSpec transformer_h(const ModelConfig& config, ActivationKind activation) {
  ModelSpec model = llama_like(config);
  set_layer_prefix(model, "transformer.h.");
  use_plain_mlp(model, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", activation);
  use_layer_norms(config, model);
  for (LayerSpec& layer : model.layers) {
    mlp_of(layer).intermediate = intermediate_or_4x(config);
    attention_of(layer).qkv = "self_attention.query_key_value";
    attention_of(layer).output = "self_attention.dense";
  }
  model.embedding = "transformer.word_embeddings";
  model.final_norm = layer_norm(config, "transformer.ln_f");
  return model;
}

}  // namespace

// Rows [head][q k v], which a GGUF has as q | k | v.
Result<ModelSpec> bloom_spec(const ModelConfig& config) {
  ModelSpec model = transformer_h(config, ActivationKind::kGeluTanh);
  for (LayerSpec& layer : model.layers) {
    layer.residual_after_norm =
        config.fields.boolean("apply_residual_connection_post_layernorm", false);
    attention_of(layer).kv_heads = config.num_heads;
    attention_of(layer).layout = config.from_gguf ? QkvLayout::kFused : QkvLayout::kPerHead;
  }
  use_alibi(model, alibi_slopes(config.num_heads));
  model.embedding_norm = layer_norm(config, "transformer.word_embeddings_layernorm");
  return model;
}

// expansion_ratio is ignored, as transformers does: the MLP is 4 * d_model wide (a GGUF says its
// width). Without ALiBi there are learned positions; both, and norms of q and k over all heads, as
// the model's own code has them.
Result<ModelSpec> mpt_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  set_layer_prefix(model, "transformer.blocks.");
  use_plain_mlp(model, "ffn.up_proj", "ffn.down_proj", ActivationKind::kGeluErf);
  const double scale = config.fields.number("attn_config.softmax_scale", 0.0);
  const double clip = config.fields.number("attn_config.clip_qkv", 0.0);
  for (LayerSpec& layer : model.layers) {
    layer.input_norm.name = "norm_1";
    layer.mlp_norm.name = "norm_2";
    if (!config.from_gguf)
      mlp_of(layer).intermediate = static_cast<std::int32_t>(4 * config.hidden_size);
    AttentionSpec& attention = attention_of(layer);
    attention.layout = QkvLayout::kFused;
    attention.kv_heads = config.num_heads;
    attention.qkv = "attn.Wqkv";
    attention.output = "attn.out_proj";
    attention.scale = static_cast<float>(scale);
    attention.clip_qkv = static_cast<float>(clip);
  }
  model.embedding = "transformer.wte";
  model.final_norm.name = "transformer.norm_f";
  use_layer_norms(config, model, !config.fields.boolean("no_bias", true));
  for (LayerSpec& layer : model.layers) {
    if (!config.fields.boolean("attn_config.qk_ln", false)) break;
    AttentionSpec& attention = attention_of(layer);
    attention.norm_all_heads = true;
    attention.q_norm = layer_norm(config, "attn.q_ln", !config.fields.boolean("no_bias", true));
    attention.k_norm = layer_norm(config, "attn.k_ln", !config.fields.boolean("no_bias", true));
  }
  if (!config.fields.boolean("attn_config.alibi", true)) {
    model.ropes.clear();
    for (LayerSpec& layer : model.layers) attention_of(layer).rope = -1;
    if (config.fields.boolean("learned_pos_emb", true))
      model.position_embedding = "transformer.wpe";
    return model;
  }
  use_alibi(model,
            mpt_slopes(config.num_heads, config.fields.number("attn_config.alibi_bias_max", 8.0)));
  return model;
}

// Three shapes: the new decoder (grouped queries, two norms or one), multi-query, and multi-head.
Result<ModelSpec> falcon_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kGeluErf));
  ModelSpec model = transformer_h(config, activation);
  const bool grouped = config.fields.boolean("new_decoder_architecture",
                                             config.from_gguf && config.num_kv_heads > 1);
  const bool multi_query = config.fields.boolean("multi_query", true);
  const bool parallel = grouped || config.fields.boolean("parallel_attn", true);
  const bool two_norms = grouped && config.fields.integer("num_ln_in_parallel_attn", 2) == 2;
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    if (!config.from_gguf) {
      attention.kv_heads = grouped ? config.num_kv_heads : multi_query ? 1 : config.num_heads;
      attention.layout = grouped       ? QkvLayout::kPerGroup
                         : multi_query ? QkvLayout::kFused
                                       : QkvLayout::kPerHead;
    } else {
      attention.layout = QkvLayout::kFused;
    }
    layer.parallel = parallel;
    if (two_norms) {
      layer.input_norm.name = "ln_attn";
      layer.mlp_norm.name = "ln_mlp";
    } else if (parallel) {
      layer.mlp_norm = NormSpec{};
    }
  }
  if (config.fields.boolean("alibi", false)) {
    std::vector<float> slopes = alibi_slopes(config.num_heads);  // divided together with the scores
    for (float& slope : slopes) slope /= std::sqrt(static_cast<float>(config.head_dim));
    use_alibi(model, slopes);
  }
  return model;
}

}  // namespace quire
