// Llama 4 (text): layers with rotary positions see their own chunk only, every fourth has no
// positions, sees everything and scales its queries by the position; experts in some layers, top-1,
// gated on the input.
#include <algorithm>

#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

bool has_rope(const ModelConfig& config, std::size_t layer) {
  const std::vector<std::int64_t> rotary =
      config.fields.integers("no_rope_layers");  // 1: with positions
  if (layer < rotary.size()) return rotary[layer] != 0;
  return static_cast<std::int64_t>(layer + 1) % period_of(config, {"no_rope_layer_interval"}, 4) !=
         0;
}

bool has_experts(const ModelConfig& config, std::size_t layer) {
  const std::vector<std::int64_t> layers = config.fields.integers("moe_layers");
  const auto index = static_cast<std::int64_t>(layer);
  if (!layers.empty()) return std::find(layers.begin(), layers.end(), index) != layers.end();
  return (index + 1) % period_of(config, {"interleave_moe_layer_step"}, 1) == 0;
}

MoeSpec experts_of(const ModelConfig& config) {
  MoeSpec moe = moe_of(config);
  moe.score = RouterScore::kSigmoidInput;
  moe.router = "feed_forward.router";
  moe.expert_prefix = "feed_forward.experts";
  moe.has_shared = true;
  moe.shared = gated_mlp("feed_forward.shared_expert", moe.intermediate);
  if (!config.from_gguf) {
    moe.storage = ExpertStorage::kStackedTransposed;
    moe.expert_suffix.clear();
    moe.expert.fused_gate_up = "gate_up_proj";
  }
  return moe;
}

}  // namespace

Result<ModelSpec> llama4_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  model.ropes[0].interleaved = true;
  const MoeSpec moe = experts_of(config);
  const std::int64_t dense =
      first_integer(config, {"intermediate_size_mlp"}, config.intermediate_size);
  NormSpec l2;
  l2.kind = NormKind::kL2;
  l2.eps = static_cast<float>(config.norm_eps);
  const bool norms = config.fields.boolean("use_qk_norm", true);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    AttentionSpec& attention = attention_of(model.layers[i]);
    attention.window = 0;
    if (has_rope(config, i)) {
      attention.chunk =
          static_cast<std::int32_t>(config.fields.integer("attention_chunk_size", 8192));
      if (norms) attention.q_norm = attention.k_norm = l2;
      attention.norm_after_rope = true;
    } else {
      attention.rope = -1;
      if (config.fields.boolean("attn_temperature_tuning", true)) {
        attention.temperature_scale = static_cast<float>(config.fields.number("attn_scale", 0.1));
        attention.temperature_floor = static_cast<float>(config.fields.number("floor_scale", 8192));
      }
    }
    model.layers[i].mlp = gated_mlp("feed_forward", dense);
    if (has_experts(config, i)) model.layers[i].mlp = moe;
  }
  return model;
}

}  // namespace quire
