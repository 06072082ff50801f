// DeepSeek V2, V2 Lite and V3 (GGUF's "deepseek2"), MiniCPM3: multi-head latent attention.
// dots.llm1, which has DeepSeek V3's experts behind ordinary attention.
#include <cmath>

#include "model/arch_common.h"
#include "model/architectures.h"

namespace quire {
namespace {

constexpr float kLatentNormEps =
    1e-6f;  // transformers' default, whatever rms_norm_eps; llama.cpp takes the file's

Result<MlaSpec> mla_of(const ModelConfig& config) {
  MlaSpec mla;
  mla.heads = config.num_heads;
  mla.q_lora_rank = static_cast<std::int32_t>(config.fields.integer("q_lora_rank", 0));
  QUIRE_ASSIGN(const std::int64_t kv_lora_rank, config.fields.need_integer("kv_lora_rank"));
  QUIRE_ASSIGN(const std::int64_t nope_dim, config.fields.need_integer("qk_nope_head_dim"));
  QUIRE_ASSIGN(const std::int64_t rope_dim, config.fields.need_integer("qk_rope_head_dim"));
  QUIRE_ASSIGN(const std::int64_t v_dim, config.fields.need_integer("v_head_dim"));
  mla.kv_lora_rank = static_cast<std::int32_t>(kv_lora_rank);
  mla.nope_dim = static_cast<std::int32_t>(nope_dim);
  mla.rope_dim = static_cast<std::int32_t>(rope_dim);
  mla.v_dim = static_cast<std::int32_t>(v_dim);
  mla.rope = 0;
  mla.q_norm = rms_norm(config, "self_attn.q_a_layernorm");
  mla.kv_norm = rms_norm(config, "self_attn.kv_a_layernorm");
  if (!config.from_gguf) mla.q_norm.eps = mla.kv_norm.eps = kLatentNormEps;
  mla.scale = 1.0f / std::sqrt(static_cast<float>(nope_dim + rope_dim));
  return mla;
}

// Yarn's attention factor also goes into the softmax scale, squared: once for q, once for k.
float yarn_softmax_factor(const RopeConfig& rope) {
  if (rope.kind == RopeConfig::Kind::kDefault || rope.mscale_all_dim == 0.0 || rope.factor <= 1.0)
    return 1.0f;
  const double mscale = 0.1 * rope.mscale_all_dim * std::log(rope.factor) + 1.0;
  return static_cast<float>(mscale * mscale);
}

// Softmax over all experts; the best groups' best experts only. llama.cpp takes V3's score of a
// group for V2, too.
MoeSpec softmax_moe_of(const ModelConfig& config) {
  MoeSpec moe = sigmoid_moe_of(config);
  moe.score = RouterScore::kSoftmax;
  moe.correction_bias.clear();
  moe.normalize = config.from_gguf &&
                  config.fields.boolean("norm_topk_prob", false);  // transformers ignores it
  moe.group_score_top2 = config.from_gguf;
  const bool grouped =
      config.fields.text("topk_method", "group_limited_greedy") == "group_limited_greedy";
  if (!grouped) moe.groups = moe.top_groups = 0;
  return moe;
}

Result<ModelSpec> deepseek_decoder(const ModelConfig& config, const MoeSpec& moe) {
  ModelSpec model = llama_like(config);
  QUIRE_ASSIGN(MlaSpec mla, mla_of(config));
  RopeConfig& rope = model.ropes[0];
  rope.rotary_dim = mla.rope_dim;
  rope.interleaved = config.fields.boolean("rope_interleave", true);
  mla.scale *= yarn_softmax_factor(rope);
  const std::int64_t dense = config.fields.integer("first_k_dense_replace", 0);
  const std::int64_t step = period_of(config, {"moe_layer_freq"}, 1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    model.layers[i].mixer = mla;
    if (moe.experts > 0 && index >= dense && index % step == 0) model.layers[i].mlp = moe;
  }
  return model;
}

}  // namespace

Result<ModelSpec> deepseek_v2_spec(const ModelConfig& config) {
  return deepseek_decoder(
      config, uses_sigmoid_router(config, false) ? sigmoid_moe_of(config) : softmax_moe_of(config));
}

Result<ModelSpec> deepseek_v3_spec(const ModelConfig& config) {
  return deepseek_decoder(
      config, uses_sigmoid_router(config, true) ? sigmoid_moe_of(config) : softmax_moe_of(config));
}

// Scaled embedding, branches and logits (a GGUF doesn't say by how much: llama.cpp has the
// published model's); rotary halves.
Result<ModelSpec> minicpm3_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  QUIRE_ASSIGN(const MlaSpec mla, mla_of(config));
  model.ropes[0].rotary_dim = mla.rope_dim;
  const double depth = config.fields.number("scale_depth", 1.4);
  const double base = config.fields.number("dim_model_base", 256);
  model.embedding_multiplier = static_cast<float>(config.fields.number("scale_emb", 12));
  model.logit_multiplier = static_cast<float>(base / static_cast<double>(config.hidden_size));
  for (LayerSpec& layer : model.layers) {
    layer.mixer = mla;
    layer.residual_multiplier =
        static_cast<float>(depth / std::sqrt(static_cast<double>(config.num_layers)));
  }
  return model;
}

Result<ModelSpec> dots1_spec(const ModelConfig& config) {
  ModelSpec model = llama_like(config);
  const MoeSpec moe = sigmoid_moe_of(config);
  const std::int64_t dense = config.fields.integer("first_k_dense_replace", 0);
  const std::int64_t first = config.fields.integer("max_window_layers", config.num_layers);
  set_windows(config, model, [&](std::int32_t layer) { return layer >= first; });
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    AttentionSpec& attention = attention_of(model.layers[i]);
    attention.q_norm = rms_norm(config, "self_attn.q_norm");
    attention.k_norm = rms_norm(config, "self_attn.k_norm");
    if (static_cast<std::int64_t>(i) >= dense) model.layers[i].mlp = moe;
  }
  return model;
}

}  // namespace quire
