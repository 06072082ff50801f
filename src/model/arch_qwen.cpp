// Qwen 2, 2.5 and 3, dense and with experts.
#include <algorithm>

#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

// Windows from max_window_layers on, when they are on at all.
ModelSpec qwen_decoder(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  const bool on = config.fields.boolean("use_sliding_window", false);
  const std::int64_t first = config.fields.integer("max_window_layers", 28);
  set_windows(config, model, [&](std::int32_t layer) { return on && layer >= first; });
  if (!on) {
    for (LayerSpec& layer : model.layers) attention_of(layer).window = 0;
  }
  return model;
}

void norm_heads(const ModelConfig& config, ModelSpec& model) {
  for (LayerSpec& layer : model.layers) {
    attention_of(layer).q_norm = rms_norm(config, "self_attn.q_norm");
    attention_of(layer).k_norm = rms_norm(config, "self_attn.k_norm");
  }
}

// Layers that mlp_only_layers names, or that the step leaves out, stay dense.
void use_experts(const ModelConfig& config, const MoeSpec& moe, ModelSpec& model) {
  const std::vector<std::int64_t> dense = config.fields.integers("mlp_only_layers");
  const std::int64_t step = period_of(config, {"decoder_sparse_step"}, 1);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    const bool sparse =
        (i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end();
    if (sparse && moe.experts > 0) model.layers[static_cast<std::size_t>(i)].mlp = moe;
  }
}

}  // namespace

Result<ModelSpec> qwen2_spec(const ModelConfig& config) {
  ModelSpec model = qwen_decoder(config);
  for (LayerSpec& layer : model.layers) attention_of(layer).require_qkv_bias = true;
  return model;
}

Result<ModelSpec> qwen3_spec(const ModelConfig& config) {
  ModelSpec model = qwen_decoder(config);
  norm_heads(config, model);
  return model;
}

// One shared expert, scaled by a sigmoid of its own.
Result<ModelSpec> qwen2_moe_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, qwen2_spec(config));
  for (LayerSpec& layer : model.layers) {
    attention_of(layer).require_qkv_bias = config.fields.boolean("qkv_bias", true);
  }
  MoeSpec moe = moe_of(config);
  moe.normalize = config.fields.boolean("norm_topk_prob", false);
  moe.has_shared = true;
  moe.shared = gated_mlp(
      "mlp.shared_expert",
      first_integer(config, {"shared_expert_intermediate_size"}, config.intermediate_size));
  moe.shared_gate = "mlp.shared_expert_gate";
  use_experts(config, moe, model);
  return model;
}

// A GGUF doesn't say norm_topk_prob; all published models have it on.
Result<ModelSpec> qwen3_moe_spec(const ModelConfig& config) {
  QUIRE_ASSIGN(ModelSpec model, qwen3_spec(config));
  MoeSpec moe = moe_of(config);
  moe.normalize = config.fields.boolean("norm_topk_prob", config.from_gguf);
  use_experts(config, moe, model);
  return model;
}

// Three gated delta nets to one gated attention layer; norms multiply by 1 + w (a GGUF's weights
// include the 1).
Result<ModelSpec> qwen3_next_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  norm_heads(config, model);
  const float offset = config.from_gguf ? 0.0f : 1.0f;
  const std::int64_t interval = period_of(config, {"full_attention_interval"}, 4);
  DeltaNetSpec delta;
  delta.key_heads = static_cast<std::int32_t>(config.fields.integer("linear_num_key_heads", 16));
  delta.value_heads =
      static_cast<std::int32_t>(config.fields.integer("linear_num_value_heads", 32));
  delta.key_dim = static_cast<std::int32_t>(config.fields.integer("linear_key_head_dim", 128));
  delta.value_dim = static_cast<std::int32_t>(config.fields.integer("linear_value_head_dim", 128));
  delta.conv = static_cast<std::int32_t>(config.fields.integer("linear_conv_kernel_dim", 4));
  delta.norm_eps = static_cast<float>(config.norm_eps);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerSpec& layer = model.layers[i];
    layer.input_norm.offset = layer.mlp_norm.offset = offset;
    AttentionSpec& attention = attention_of(layer);
    attention.q_norm.offset = attention.k_norm.offset = offset;
    attention.output_gate = true;
    const bool linear = i < config.layer_types.size()
                            ? config.layer_types[i] == "linear_attention"
                            : static_cast<std::int64_t>(i + 1) % interval != 0;
    if (linear) layer.mixer = delta;
  }
  model.final_norm.offset = offset;
  MoeSpec moe = moe_of(config);
  moe.normalize = config.fields.boolean("norm_topk_prob", true);
  moe.has_shared = true;
  moe.shared = gated_mlp("mlp.shared_expert",
                         first_integer(config, {"shared_expert_intermediate_size"}, 512));
  moe.shared_gate = "mlp.shared_expert_gate";
  use_experts(config, moe, model);
  return model;
}

}  // namespace quire
