// The GPT family: GPT-2, StarCoder (GPT-BigCode), OPT with learned positions; GPT-J and GPT-NeoX
// with rotary ones.
#include <cmath>

#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

// "transformer.h.N.": LayerNorms ln_1 and ln_2, a plain MLP.
ModelSpec gpt_decoder(const ModelConfig& config, const std::string& up, const std::string& down,
                      ActivationKind activation) {
  ModelSpec model = llama_like(config);
  set_layer_prefix(model, "transformer.h.");
  use_plain_mlp(model, up, down, activation);
  for (LayerSpec& layer : model.layers) {
    layer.input_norm.name = "ln_1";
    layer.mlp_norm.name = "ln_2";
    mlp_of(layer).intermediate = intermediate_or_4x(config);
  }
  model.embedding = "transformer.wte";
  model.final_norm.name = "transformer.ln_f";
  use_layer_norms(config, model);
  return model;
}

void use_learned_positions(ModelSpec& model, std::string name) {
  model.position_embedding = std::move(name);
  model.ropes.clear();
  for (LayerSpec& layer : model.layers) attention_of(layer).rope = -1;
}

}  // namespace

// Matrices are stored [in, out] (a GGUF's are not).
Result<ModelSpec> gpt2_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kGeluTanh));
  ModelSpec model = gpt_decoder(config, "mlp.c_fc", "mlp.c_proj", activation);
  use_learned_positions(model, "transformer.wpe");
  const bool scaled = config.fields.boolean("scale_attn_weights", true);
  const bool by_layer = config.fields.boolean("scale_attn_by_inverse_layer_idx", false);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    AttentionSpec& attention = attention_of(model.layers[i]);
    attention.layout = QkvLayout::kFused;
    attention.qkv = "attn.c_attn";
    attention.output = "attn.c_proj";
    attention.transposed = mlp_of(model.layers[i]).transposed = !config.from_gguf;
    attention.scale = scaled ? 1.0f / std::sqrt(static_cast<float>(config.head_dim)) : 1.0f;
    if (by_layer) attention.scale /= static_cast<float>(i + 1);
  }
  return model;
}

// Multi-query: rows q | k | v; multi-head: [head][q k v] (a GGUF has q | k | v either way).
Result<ModelSpec> gpt_bigcode_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kGeluTanh));
  ModelSpec model = gpt_decoder(config, "mlp.c_fc", "mlp.c_proj", activation);
  use_learned_positions(model, "transformer.wpe");
  const bool multi_query = config.fields.boolean("multi_query", true);
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    attention.layout = multi_query || config.from_gguf ? QkvLayout::kFused : QkvLayout::kPerHead;
    if (!config.from_gguf) attention.kv_heads = multi_query ? 1 : config.num_heads;
    attention.qkv = "attn.c_attn";
    attention.output = "attn.c_proj";
    if (!config.fields.boolean("scale_attn_weights", true)) attention.scale = 1.0f;
  }
  return model;
}

// Attention and MLP side by side behind one norm; interleaved rotary positions on the first
// rotary_dim elements.
Result<ModelSpec> gptj_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kGeluTanh));
  ModelSpec model = gpt_decoder(config, "mlp.fc_in", "mlp.fc_out", activation);
  model.ropes[0].interleaved = true;
  model.ropes[0].rotary_dim =
      static_cast<std::int32_t>(config.fields.integer("rotary_dim", config.head_dim));
  for (LayerSpec& layer : model.layers) {
    layer.parallel = true;
    layer.mlp_norm = NormSpec{};
    AttentionSpec& attention = attention_of(layer);
    attention.q = "attn.q_proj";
    attention.k = "attn.k_proj";
    attention.v = "attn.v_proj";
    attention.output = "attn.out_proj";
  }
  model.head_bias = true;
  return model;
}

// Parallel with two norms (or in sequence); rows [head][q k v], which a GGUF has as q | k | v.
Result<ModelSpec> gpt_neox_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kGeluErf));
  ModelSpec model = llama_like(config);
  set_layer_prefix(model, "gpt_neox.layers.");
  use_plain_mlp(model, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", activation);
  use_layer_norms(config, model);
  for (LayerSpec& layer : model.layers) {
    layer.parallel = config.fields.boolean("use_parallel_residual", true);
    AttentionSpec& attention = attention_of(layer);
    attention.layout = config.from_gguf ? QkvLayout::kFused : QkvLayout::kPerHead;
    attention.qkv = "attention.query_key_value";
    attention.output = "attention.dense";
  }
  model.embedding = "gpt_neox.embed_in";
  model.final_norm = layer_norm(config, "gpt_neox.final_layer_norm");
  model.head = "embed_out";
  return model;
}

// OPT-350m alone norms the sums (as the first Transformer did), and its embedding is narrower.
Result<ModelSpec> opt_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kRelu));
  const bool pre_norm = config.fields.boolean("do_layer_norm_before", true);
  const std::int64_t projected = config.fields.integer("word_embed_proj_dim", config.hidden_size);
  if (projected < 1 || projected > config.hidden_size * 64)
    return make_error(ErrorCode::kBadFile, "word_embed_proj_dim {} of a model {} wide", projected,
                      config.hidden_size);
  ModelSpec model = llama_like(config);
  set_layer_prefix(model, "model.decoder.layers.");
  use_plain_mlp(model, "fc1", "fc2", activation);
  for (LayerSpec& layer : model.layers) {
    layer.input_norm.name = "self_attn_layer_norm";
    layer.mlp_norm.name = "final_layer_norm";
    attention_of(layer).output = "self_attn.out_proj";
  }
  model.embedding = "model.decoder.embed_tokens";
  model.final_norm.name = "model.decoder.final_layer_norm";
  use_layer_norms(config, model);
  if (config.fields.boolean("_remove_final_layer_norm", false) || !pre_norm)
    model.final_norm = NormSpec{};
  for (LayerSpec& layer : model.layers) {
    if (pre_norm) break;
    layer.mixer_sum_norm = std::exchange(layer.input_norm, NormSpec{});
    layer.mlp_sum_norm = std::exchange(layer.mlp_norm, NormSpec{});
  }
  if (projected != config.hidden_size) {
    model.embedding_size = projected;
    model.project_in = "model.decoder.project_in";
    model.project_out = "model.decoder.project_out";
  }
  use_learned_positions(model, "model.decoder.embed_positions");
  model.position_offset = 2;
  return model;
}

}  // namespace quire
