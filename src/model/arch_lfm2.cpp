// LFM2, dense and with experts: short convolutions and attention in turn.
#include <algorithm>

#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

bool is_attention(const ModelConfig& config, std::size_t layer) {
  if (layer < config.layer_types.size()) return config.layer_types[layer] == "full_attention";
  const std::vector<std::int64_t> indices =
      config.fields.integers("full_attn_idxs");  // absent: all
  return indices.empty() || std::find(indices.begin(), indices.end(),
                                      static_cast<std::int64_t>(layer)) != indices.end();
}

// block_auto_adjust_ff_dim: the stored width is two thirds of the one named, rounded up (a GGUF
// says the result).
std::int32_t mlp_width(const ModelConfig& config) {
  std::int64_t width = first_integer(config, {"block_ff_dim"}, config.intermediate_size);
  if (!config.from_gguf && config.fields.boolean("block_auto_adjust_ff_dim", false)) {
    const std::int64_t multiple = period_of(config, {"block_multiple_of"}, 256);
    const double factor = config.fields.number("block_ffn_dim_multiplier", 1.0);
    const std::int64_t two_thirds = 2 * width / 3;
    width = static_cast<std::int64_t>(factor * static_cast<double>(two_thirds));
    width = (width + multiple - 1) / multiple * multiple;
  }
  return static_cast<std::int32_t>(width);
}

MlpSpec w123(std::string_view prefix, std::int32_t intermediate) {
  MlpSpec mlp;
  mlp.gate = std::string(prefix) + "w1";
  mlp.up = std::string(prefix) + "w3";
  mlp.down = std::string(prefix) + "w2";
  mlp.intermediate = intermediate;
  return mlp;
}

}  // namespace

Result<ModelSpec> lfm2_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  ShortConvSpec conv;
  conv.conv = static_cast<std::int32_t>(config.fields.integer("conv_L_cache", 3));
  conv.bias = config.fields.boolean("conv_bias", false);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerSpec& layer = model.layers[i];
    layer.input_norm = rms_norm(config, "operator_norm");
    layer.mlp_norm = rms_norm(config, "ffn_norm");
    layer.mlp = w123("feed_forward.", mlp_width(config));
    AttentionSpec& attention = attention_of(layer);
    attention.output = "self_attn.out_proj";
    attention.q_norm = rms_norm(config, "self_attn.q_layernorm");
    attention.k_norm = rms_norm(config, "self_attn.k_layernorm");
    if (!is_attention(config, i)) layer.mixer = conv;
  }
  model.final_norm = rms_norm(config, "model.embedding_norm");
  return model;
}

// Sigmoid scores with a bias for the choice; the first layers are dense. (A GGUF has
// routed_scaling_factor folded in.)
Result<ModelSpec> lfm2_moe_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, lfm2_spec(config));
  MoeSpec moe = moe_of(config);
  moe.score = RouterScore::kSigmoid;
  moe.router = "feed_forward.gate";
  if (config.fields.boolean("use_expert_bias", true))
    moe.correction_bias = "feed_forward.expert_bias";
  moe.normalize = config.fields.boolean("norm_topk_prob", true);
  moe.normalize_epsilon = 1e-6f;
  moe.weight_scale = static_cast<float>(config.fields.number("routed_scaling_factor", 1.0));
  moe.expert_prefix = "feed_forward.experts";
  moe.expert = w123("", moe.intermediate);
  const std::int64_t dense = first_integer(config, {"num_dense_layers"}, 0);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (static_cast<std::int64_t>(i) >= dense) model.layers[i].mlp = moe;
  }
  return model;
}

}  // namespace quire
