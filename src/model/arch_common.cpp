#include "model/arch_common.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

NormSpec norm(const ModelConfig& config, NormKind kind, std::string name, bool bias) {
  NormSpec spec;
  spec.kind = kind;
  spec.name = std::move(name);
  spec.bias = bias;
  spec.eps = static_cast<float>(config.norm_eps);
  return spec;
}

LayerSpec llama_layer(const ModelConfig& config, std::int32_t index) {
  LayerSpec layer;
  layer.prefix = "model.layers." + std::to_string(index) + ".";
  layer.input_norm = rms_norm(config, "input_layernorm");
  layer.mlp_norm = rms_norm(config, "post_attention_layernorm");
  AttentionSpec attention;
  attention.q_heads = config.num_heads;
  attention.kv_heads = config.num_kv_heads;
  attention.head_dim = config.head_dim;
  attention.rope = 0;
  attention.window = config.sliding_window;
  attention.require_qkv_bias = config.attention_bias;
  attention.require_output_bias = config.attention_out_bias;
  layer.mixer = std::move(attention);
  MlpSpec mlp;
  mlp.intermediate = static_cast<std::int32_t>(config.intermediate_size);
  mlp.require_bias = config.mlp_bias;
  layer.mlp = std::move(mlp);
  return layer;
}

}  // namespace

NormSpec rms_norm(const ModelConfig& config, std::string name) {
  return norm(config, NormKind::kRms, std::move(name), false);
}

NormSpec layer_norm(const ModelConfig& config, std::string name, bool bias) {
  return norm(config, NormKind::kLayer, std::move(name), bias);
}

ModelSpec llama_like(const ModelConfig& config) {
  ModelSpec model;
  model.vocab_size = config.vocab_size;
  model.hidden_size = config.hidden_size;
  model.ropes = {config.rope};
  for (std::int32_t i = 0; i < config.num_layers; ++i)
    model.layers.push_back(llama_layer(config, i));
  model.final_norm = rms_norm(config, "model.norm");
  model.tied_head = config.tied_embeddings;
  return model;
}

AttentionSpec& attention_of(LayerSpec& layer) {
  AttentionSpec* const attention = std::get_if<AttentionSpec>(&layer.mixer);
  QUIRE_CHECK(attention != nullptr, "layer {} has no attention", layer.prefix);
  return *attention;
}

MlpSpec& mlp_of(LayerSpec& layer) {
  MlpSpec* const mlp = std::get_if<MlpSpec>(&layer.mlp);
  QUIRE_CHECK(mlp != nullptr, "layer {} has no MLP", layer.prefix);
  return *mlp;
}

void set_layer_prefix(ModelSpec& model, std::string_view prefix) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].prefix = std::string(prefix) + std::to_string(i) + ".";
  }
}

void use_layer_norms(const ModelConfig& config, ModelSpec& model, bool bias) {
  for (LayerSpec& layer : model.layers) {
    layer.input_norm = layer_norm(config, layer.input_norm.name, bias);
    layer.mlp_norm = layer_norm(config, layer.mlp_norm.name, bias);
  }
  model.final_norm = layer_norm(config, model.final_norm.name, bias);
}

void use_plain_mlp(ModelSpec& model, const std::string& up, const std::string& down,
                   ActivationKind activation) {
  for (LayerSpec& layer : model.layers) {
    MlpSpec& mlp = mlp_of(layer);
    mlp.gated = false;
    mlp.up = up;
    mlp.down = down;
    mlp.activation = activation;
  }
}

bool is_sliding(const ModelConfig& config, std::int32_t layer, bool implied) {
  if (config.sliding_window <= 0) return false;
  if (static_cast<std::size_t>(layer) >= config.layer_types.size()) return implied;
  return config.layer_types[static_cast<std::size_t>(layer)] == "sliding_attention";
}

void set_windows(const ModelConfig& config, ModelSpec& model,
                 const std::function<bool(std::int32_t)>& implied) {
  if (config.sliding_rope && model.ropes.size() == 1) model.ropes.push_back(*config.sliding_rope);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const bool slides = is_sliding(config, index, implied(index));
    AttentionSpec& attention = attention_of(model.layers[i]);
    attention.window = slides ? config.sliding_window : 0;
    attention.rope = slides && model.ropes.size() > 1 ? 1 : 0;
  }
}

Result<ActivationKind> activation_of(const ModelConfig& config, ActivationKind otherwise) {
  if (config.from_gguf) return otherwise;
  std::string name = config.activation == "silu" ? "" : config.activation;
  for (const char* field :
       {"hidden_activation", "hidden_act", "activation_function", "activation"}) {
    if (config.fields.has(field)) {
      name = config.fields.text(field, name);
      break;
    }
  }
  if (name.empty()) return otherwise;
  if (name == "silu" || name == "swish") return ActivationKind::kSilu;
  if (name == "gelu" || name == "gelu_python") return ActivationKind::kGeluErf;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast")
    return ActivationKind::kGeluTanh;
  if (name == "quick_gelu") return ActivationKind::kGeluQuick;
  if (name == "relu") return ActivationKind::kRelu;
  if (name == "relu2") return ActivationKind::kRelu2;
  if (name == "xielu") return ActivationKind::kXielu;
  return make_error(
      ErrorCode::kUnsupported,
      "activation \"{}\" of the configuration is not supported; known: silu, gelu, gelu_new, "
      "gelu_pytorch_tanh, quick_gelu, relu, relu2, xielu",
      name);
}

std::int64_t first_integer(const ModelConfig& config, std::initializer_list<std::string_view> names,
                           std::int64_t otherwise) {
  for (std::string_view name : names) {
    const std::vector<std::int64_t> values =
        config.fields.integers(name);  // some give one per layer, all alike
    if (!values.empty()) return values.front();
  }
  return otherwise;
}

std::int64_t period_of(const ModelConfig& config, std::initializer_list<std::string_view> names,
                       std::int64_t otherwise) {
  return std::max<std::int64_t>(1, first_integer(config, names, otherwise));
}

std::int32_t intermediate_or_4x(const ModelConfig& config) {
  const std::int64_t size =
      config.intermediate_size > 0 ? config.intermediate_size : 4 * config.hidden_size;
  return static_cast<std::int32_t>(size);
}

MlpSpec gated_mlp(std::string_view prefix, std::int64_t intermediate) {
  MlpSpec mlp;
  const std::string start = prefix.empty() ? std::string() : std::string(prefix) + ".";
  mlp.gate = start + "gate_proj";
  mlp.up = start + "up_proj";
  mlp.down = start + "down_proj";
  mlp.intermediate = static_cast<std::int32_t>(intermediate);
  return mlp;
}

MoeSpec moe_of(const ModelConfig& config) {
  MoeSpec moe;
  moe.experts = static_cast<std::int32_t>(first_integer(
      config, {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, 0));
  moe.top_k = static_cast<std::int32_t>(
      first_integer(config, {"num_experts_per_tok", "moe_topk", "moe_k"}, 1));
  moe.intermediate = static_cast<std::int32_t>(
      first_integer(config, {"moe_intermediate_size"}, config.intermediate_size));
  moe.expert = gated_mlp("", moe.intermediate);
  return moe;
}

MoeSpec sigmoid_moe_of(const ModelConfig& config) {
  MoeSpec moe = moe_of(config);
  moe.score = RouterScore::kSigmoid;
  moe.correction_bias = "mlp.gate.e_score_correction_bias";
  moe.normalize = config.fields.boolean("norm_topk_prob", true);
  moe.normalize_epsilon = 1e-20f;
  moe.weight_scale = static_cast<float>(config.fields.number("routed_scaling_factor", 1.0));
  const std::int64_t groups = config.fields.integer("n_group", 1);
  if (groups > 1) {
    moe.groups = static_cast<std::int32_t>(groups);
    moe.top_groups = static_cast<std::int32_t>(config.fields.integer("topk_group", groups));
    moe.group_score_top2 = true;
  }
  const std::int64_t shared = config.fields.integer("n_shared_experts", 0);
  moe.has_shared = shared > 0;
  moe.shared = gated_mlp("mlp.shared_experts", shared * moe.intermediate);
  return moe;
}

bool uses_sigmoid_router(const ModelConfig& config, bool otherwise) {
  const std::string scores = config.fields.text("scoring_func", "");
  return scores.empty() ? otherwise : scores == "sigmoid";
}

std::vector<float> alibi_slopes(std::int32_t heads, double max_bias) {
  std::int32_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<float> slopes;
  for (std::int32_t h = 0; h < heads; ++h) {
    const double exponent =
        h < power ? max_bias / power * (h + 1) : max_bias / (2 * power) * (2 * (h - power) + 1);
    slopes.push_back(static_cast<float>(std::exp2(-exponent)));
  }
  return slopes;
}

}  // namespace quire
