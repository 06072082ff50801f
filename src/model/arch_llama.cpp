// Llama 2 and 3, SmolLM2, Mistral and Mixtral (also as GGUF's "llama"), Seed-OSS, Arcee and
// SmolLM3: pre-norm decoders of grouped-query attention with rotary positions.
#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {

Result<ModelSpec> llama_spec(const ModelConfig& config) {
  if (first_integer(config, {"num_local_experts"}, 0) > 0) return mixtral_spec(config);
  ModelSpec model = llama_like(config);
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kSilu));
  for (LayerSpec& layer : model.layers) mlp_of(layer).activation = activation;
  return model;
}

// Softmax over the chosen experts' logits; experts w1 (gate), w3 (up), w2 (down).
Result<ModelSpec> mixtral_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  for (LayerSpec& layer : model.layers) {
    MoeSpec moe = moe_of(config);
    moe.score = RouterScore::kSoftmaxOfTopK;
    moe.router = "block_sparse_moe.gate";
    moe.expert_prefix = "block_sparse_moe.experts";
    moe.expert.gate = "w1";
    moe.expert.up = "w3";
    moe.expert.down = "w2";
    layer.mlp = moe;
  }
  return model;
}

// Ministral 3: queries grow with the logarithm of the position, in every layer. (The factor is laid
// on before the rotation, which it commutes with.)
Result<ModelSpec> ministral3_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  const double scale = config.fields.number("rope_parameters.llama_4_scaling_beta", 0.0);
  for (LayerSpec& layer : model.layers) {
    if (scale == 0.0) break;
    AttentionSpec& attention = attention_of(layer);
    attention.temperature_scale = static_cast<float>(scale);
    attention.temperature_floor = static_cast<float>(config.rope.original_max_position);
    attention.temperature_offset = 0.0f;
    if (attention.temperature_floor < 1.0f)
      return make_error(ErrorCode::kBadFile,
                        "llama_4_scaling_beta without original_max_position_embeddings");
  }
  return model;
}

// MiniMax M2: norms of q and k over all heads, sigmoid scores with a bias for the choice alone.
Result<ModelSpec> minimax_m2_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, mixtral_spec(config));
  // Published files name the rotated part of a head so.
  model.ropes[0].rotary_dim =
      static_cast<std::int32_t>(first_integer(config, {"rotary_dim"}, model.ropes[0].rotary_dim));
  for (LayerSpec& layer : model.layers) {
    AttentionSpec& attention = attention_of(layer);
    attention.norm_all_heads = true;
    attention.q_norm = rms_norm(config, "self_attn.q_norm");
    attention.k_norm = rms_norm(config, "self_attn.k_norm");
    MoeSpec& moe = std::get<MoeSpec>(layer.mlp);
    moe.score = RouterScore::kSigmoid;
    moe.normalize = true;
    moe.correction_bias = "block_sparse_moe.e_score_correction_bias";
  }
  return model;
}

// Arcee's MLP has no gate: relu(up(x))^2.
Result<ModelSpec> arcee_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  QUIRE_ASSIGN(const ActivationKind activation, activation_of(config, ActivationKind::kRelu2));
  use_plain_mlp(model, "mlp.up_proj", "mlp.down_proj", activation);
  return model;
}

// Every fourth layer has no positions, or those that no_rope_layers marks with 0.
Result<ModelSpec> smollm3_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  const std::vector<std::int64_t> rotary = config.fields.integers("no_rope_layers");
  const std::int64_t interval = period_of(config, {"no_rope_layer_interval"}, 4);
  const bool slides = config.fields.boolean("use_sliding_window", false);
  const auto has_rope = [&](std::int32_t layer) {
    const auto i = static_cast<std::size_t>(layer);
    return i < rotary.size() ? rotary[i] != 0 : (layer + 1) % interval != 0;
  };
  set_windows(config, model, [&](std::int32_t layer) { return slides && !has_rope(layer); });
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    if (!has_rope(i)) attention_of(model.layers[static_cast<std::size_t>(i)]).rope = -1;
  }
  return model;
}

// Biases on q, k and v and, apart from them, on the output.
Result<ModelSpec> seed_oss_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  for (LayerSpec& layer : model.layers) {
    attention_of(layer).require_output_bias = config.fields.boolean("attention_out_bias", false);
  }
  return model;
}

}  // namespace quire
