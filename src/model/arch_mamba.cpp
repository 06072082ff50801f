// Mamba and Mamba 2 (no attention, no MLP), and Jamba: Mamba with attention and experts in between.
#include <algorithm>

#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

std::int32_t size_of(const ModelConfig& config, const char* name, std::int64_t otherwise) {
  return static_cast<std::int32_t>(config.fields.integer(name, otherwise));
}

// "backbone.layers.N.": a norm and a mixer each.
ModelSpec backbone(const ModelConfig& config, const MixerSpec& mixer) {
  ModelSpec model = llama_like(config);
  set_layer_prefix(model, "backbone.layers.");
  for (LayerSpec& layer : model.layers) {
    layer.input_norm = rms_norm(config, "norm");
    layer.mlp_norm = NormSpec{};
    layer.mixer = mixer;
    layer.mlp = std::monostate();
  }
  model.ropes.clear();
  model.embedding = "backbone.embeddings";
  model.final_norm = rms_norm(config, "backbone.norm_f");
  return model;
}

std::int32_t expanded(const ModelConfig& config, const char* factor) {
  return static_cast<std::int32_t>(config.fields.number(factor, 2.0) *
                                   static_cast<double>(config.hidden_size));
}

std::int32_t sixteenth(const ModelConfig& config) {  // time_step_rank "auto"
  return static_cast<std::int32_t>((config.hidden_size + 15) / 16);
}

}  // namespace

Result<ModelSpec> mamba_spec(const ModelConfig& config) {
  MambaSpec mixer;
  mixer.inner = size_of(config, "intermediate_size", expanded(config, "expand"));
  mixer.state = size_of(config, "state_size", 16);
  mixer.conv = size_of(config, "conv_kernel", 4);
  mixer.dt_rank = size_of(config, "time_step_rank", sixteenth(config));
  mixer.conv_bias = config.fields.boolean("use_conv_bias", true);
  mixer.proj_bias = config.fields.boolean("use_bias", false);
  return backbone(config, mixer);
}

Result<ModelSpec> mamba2_spec(const ModelConfig& config) {
  return backbone(config, mamba2_of(config, ""));
}

// llama.cpp norms each group by itself, as the model's own code does; transformers norms all
// channels together.
Mamba2Spec mamba2_of(const ModelConfig& config, std::string_view prefix) {
  const auto size = [&](std::string_view own, std::string_view prefixed, std::int64_t otherwise) {
    const std::string name =
        prefix.empty() ? std::string(own) : std::string(prefix).append(prefixed);
    return static_cast<std::int32_t>(config.fields.integer(name, otherwise));
  };
  const auto flag = [&](std::string_view own, std::string_view prefixed, bool otherwise) {
    return config.fields.boolean(
        prefix.empty() ? std::string(own) : std::string(prefix).append(prefixed), otherwise);
  };
  Mamba2Spec mixer;
  if (!prefix.empty()) mixer.name = prefix.substr(0, prefix.size() - 1);
  const std::int32_t wide = expanded(config, prefix.empty() ? "expand" : "mamba_expand");
  mixer.inner = prefix.empty() ? size("intermediate_size", "", wide) : wide;
  mixer.heads = size("num_heads", "n_heads", 128);
  mixer.head_dim = mixer.heads > 0 ? mixer.inner / mixer.heads : 0;
  mixer.head_dim = size("head_dim", "d_head", mixer.head_dim);
  mixer.groups = size("n_groups", "n_groups", 1);
  mixer.state = size("state_size", "d_state", prefix.empty() ? 128 : 256);
  mixer.conv = size("conv_kernel", "d_conv", 4);
  mixer.conv_bias = flag("use_conv_bias", "conv_bias", true);
  mixer.proj_bias = flag("use_bias", "proj_bias", false);
  mixer.norm_eps = static_cast<float>(config.norm_eps);
  mixer.norm_per_group = config.from_gguf;
  const std::vector<double> limit =
      config.fields.numbers("time_step_limit");  // absent or infinite: none
  if (limit.size() == 2) {
    mixer.dt_min = static_cast<float>(limit[0]);
    if (limit[1] < 1e30) mixer.dt_max = static_cast<float>(limit[1]);
  }
  return mixer;
}

// Attention without positions in every attn_layer_period-th layer, experts in every
// expert_layer_period-th.
Result<ModelSpec> jamba_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  MambaSpec mixer;
  mixer.name = "mamba";
  mixer.inner = expanded(config, "mamba_expand");
  mixer.state = size_of(config, "mamba_d_state", 16);
  mixer.conv = size_of(config, "mamba_d_conv", 4);
  mixer.dt_rank = size_of(config, "mamba_dt_rank", sixteenth(config));
  mixer.conv_bias = config.fields.boolean("mamba_conv_bias", true);
  mixer.proj_bias = config.fields.boolean("mamba_proj_bias", false);
  mixer.dt_norm_eps = static_cast<float>(config.norm_eps);
  MoeSpec moe = moe_of(config);
  moe.router = "feed_forward.router";
  moe.expert_prefix = "feed_forward.experts";
  const std::int64_t attention_period = period_of(config, {"attn_layer_period"}, 8);
  const std::int64_t attention_offset = config.fields.integer("attn_layer_offset", 4);
  const std::int64_t expert_period = period_of(config, {"expert_layer_period"}, 2);
  const std::vector<std::int64_t> expert_layers = config.fields.integers("gguf.moe_layers");
  const std::int64_t expert_offset = config.fields.integer("expert_layer_offset", 1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerSpec& layer = model.layers[i];
    const auto index = static_cast<std::int64_t>(i);
    const bool attends =
        i < config.layer_types.size()
            ? config.layer_types[i] == "attention" || config.layer_types[i] == "full_attention"
            : index % attention_period == attention_offset;
    attention_of(layer).rope = -1;
    if (!attends) layer.mixer = mixer;
    layer.mlp_norm = rms_norm(config, "pre_ff_layernorm");
    layer.mlp = gated_mlp("feed_forward", config.intermediate_size);
    const bool has_experts =
        config.from_gguf
            ? std::find(expert_layers.begin(), expert_layers.end(), index) != expert_layers.end()
            : index % expert_period == expert_offset;
    if (moe.experts > 1 && has_experts) layer.mlp = moe;
  }
  model.ropes.clear();
  model.final_norm = rms_norm(config, "model.final_layernorm");
  return model;
}

}  // namespace quire
