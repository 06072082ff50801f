#include "weights/gguf_fields.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

// Where a GGUF's number goes: every Hugging Face family's name for it, apart by spaces. Sources:
// gguf-py's constants and llama.cpp's converter.
struct Row {
  std::string_view gguf, hf;
};
constexpr Row kNumbers[] = {
    {"expert_count",
     "num_experts num_local_experts n_routed_experts moe_num_experts ffn_config.moe_num_experts"},
    {"expert_used_count", "num_experts_per_tok moe_k moe_topk ffn_config.moe_top_k"},
    {"expert_shared_count", "n_shared_experts moe_num_shared_experts num_shared_expert"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length",
     "shared_expert_intermediate_size shared_intermediate_size"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"leading_dense_block_count", "first_k_dense_replace num_dense_layers moe_layer_start_index"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step moe_layer_interval"},
    {"attention.scale", "attention_multiplier"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"logit_scale", "logit_scale logits_scaling"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"attention.clamp_kqv", "clip_qkv attn_config.clip_qkv"},
    {"attention.max_alibi_bias", "attn_config.alibi_bias_max"},
    {"attention.temperature_scale", "rope_parameters.llama_4_scaling_beta"},
    {"attention.q_lora_rank", "q_lora_rank"},
    {"attention.kv_lora_rank", "kv_lora_rank"},
    {"ssm.conv_kernel", "conv_kernel mamba_d_conv linear_conv_kernel_dim"},
    {"ssm.state_size", "state_size mamba_d_state linear_key_head_dim"},
    {"ssm.time_step_rank", "time_step_rank mamba_dt_rank linear_num_value_heads"},
    {"ssm.group_count", "n_groups mamba_n_groups linear_num_key_heads"},
    {"shortconv.l_cache", "conv_L_cache"},
    {"use_parallel_residual", "use_parallel_residual"},
    {"full_attention_interval", "full_attention_interval"},
    {"nextn_predict_layers", "num_nextn_predict_layers"},
};

// Constants that llama.cpp has in its code, and what a GGUF's architecture implies; metadata wins.
struct Constant {
  std::string_view model_type, field;
  double value;
};
constexpr Constant kConstants[] = {
    {"deepseek_v2", "gguf.group_score_top2", 1},
    {"dbrx", "gguf.split_gate_up", 1},
    {"falcon", "gguf.fused_qkv", 1},
    {"falcon", "parallel_attn", 1},
    {"bloom", "gguf.fused_qkv", 1},
    {"gemma", "gguf.norm_offset_baked", 1},
    {"gemma2", "gguf.norm_offset_baked", 1},
    {"gemma2", "attn_logit_softcapping", 50},
    {"gemma2", "final_logit_softcapping", 30},
    {"gemma3_text", "gguf.norm_offset_baked", 1},
    {"gpt2", "gguf.untransposed", 1},
    {"gpt_neox", "gguf.fused_qkv", 1},
    {"gpt_oss", "gguf.split_gate_up", 1},
    {"gpt_oss", "swiglu_limit", 7},
    {"gpt_oss", "swiglu_alpha", 1.702},
    {"granitemoe", "gguf.split_gate_up", 1},
    {"granitemoehybrid", "gguf.negative_a", 1},
    {"granitemoehybrid", "gguf.norm_per_group", 1},
    {"granitemoehybrid", "gguf.split_gate_up", 1},
    {"granitemoeshared", "gguf.split_gate_up", 1},
    {"jamba", "gguf.negative_a", 1},
    {"lfm2_moe", "norm_topk_prob", 1},
    {"lfm2_moe", "routed_scaling_factor", 1},
    {"llama4_text", "gguf.split_gate_up", 1},
    {"llama4_text", "attention_chunk_size", 8192},
    {"llama4_text", "attn_scale", 0.1},
    {"llama4_text", "floor_scale", 8192},
    {"llama4_text", "no_rope_layer_interval", 4},
    {"llama4_text", "attn_temperature_tuning", 1},
    {"mamba", "gguf.negative_a", 1},
    {"mamba2", "gguf.negative_a", 1},
    {"mamba2", "gguf.norm_per_group", 1},
    {"minicpm3", "scale_emb", 12},
    {"minicpm3", "scale_depth", 1.4},
    {"minicpm3", "dim_model_base", 256},
    {"nemotron", "gguf.norm_offset_baked", 1},
    {"olmoe", "norm_topk_prob", 0},
    {"phimoe", "gguf.softmax_routing", 1},
    {"phimoe", "gguf.rms_norm", 1},
    {"qwen2_moe", "norm_topk_prob", 0},
    {"qwen3_moe", "norm_topk_prob", 1},
    {"qwen3_next", "norm_topk_prob", 1},
    {"qwen3_next", "gguf.norm_offset_baked", 1},
    {"qwen3_next", "gguf.negative_a", 1},
    {"qwen3_next", "gguf.linear_attn_split", 1},
    {"smollm3", "no_rope_layer_interval", 4},
};

// A flag that the presence of a tensor in any layer tells.
struct Presence {
  std::string_view tail, field;
};
constexpr Presence kPresences[] = {
    {".attn_q_norm.weight", "use_qk_norm qk_layernorm attn_config.qk_ln"},
    {".attn_q.bias", "qkv_bias use_qkv_bias"},
    {".attn_qkv.bias", "qkv_bias use_qkv_bias"},
    {".ffn_down.bias", "bias use_bias"},
    {".attn_output.bias", "bias"},
    {".ssm_conv1d.bias", "use_conv_bias mamba_conv_bias"},
    {".exp_probs_b.bias", "use_expert_bias"},
    {".ffn_gate_exps.weight", "gguf.stacked_experts"},
    {".attn_k_b.weight", "gguf.mla_split_kv_b"},
};

void set_all(ConfigFields* fields, std::string_view names, const ConfigFields::Value& value) {
  while (!names.empty()) {
    const std::size_t space = std::min(names.find(' '), names.size());
    fields->set(std::string(names.substr(0, space)), value);
    names.remove_prefix(std::min(space + 1, names.size()));
  }
}

// Whole numbers as integers, so that need_integer takes them.
ConfigFields::Value whole_or_real(double number) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(number) == number && std::abs(number) < kExact) {
    return static_cast<std::int64_t>(number);
  }
  return number;
}

void set_numbers(const ArchFields& fields, ConfigFields* out) {
  for (const Row& row : kNumbers) {
    const GgufValue* value = fields.find(row.gguf);
    if (value == nullptr) continue;
    if (const auto* flag = std::get_if<bool>(value)) {
      set_all(out, row.hf, *flag);
    } else if (const auto whole = fields.integer(row.gguf)) {
      if (*whole != 0) set_all(out, row.hf, *whole);  // 0: without
    } else if (const auto real = fields.number(row.gguf); real && *real != 0) {
      // Stored as float32: 0.12 is 0.119999997.
      set_all(out, row.hf, *real);
    }
  }
}

void set_sizes(const ModelConfig& config, ConfigFields* out) {
  const std::pair<std::string_view, std::int64_t> sizes[] = {
      {"vocab_size", config.vocab_size},
      {"hidden_size n_embd d_model", config.hidden_size},
      {"intermediate_size ffn_config.ffn_hidden_size", config.intermediate_size},
      {"num_hidden_layers n_layer n_layers", config.num_layers},
      {"num_attention_heads n_head n_heads", config.num_heads},
      {"num_key_value_heads num_kv_heads attn_config.kv_n_heads", config.num_kv_heads},
      {"head_dim", config.head_dim},
      {"max_position_embeddings n_positions max_seq_len", config.max_position},
  };
  for (const auto& [names, value] : sizes) set_all(out, names, value);
  set_all(out, "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon",
          config.norm_eps);
  out->set("tie_word_embeddings", config.tied_embeddings);
  out->set("model_type", config.architecture);
  out->set("multi_query", config.num_kv_heads == 1);
  if (config.sliding_window > 0) out->set("sliding_window", std::int64_t{config.sliding_window});
}

void set_presences(const GgufFile& file, ConfigFields* out) {
  for (const std::string& name : file.tensor_names()) {
    if (name == "output.bias") out->set("lm_head_bias", true);
    if (!name.starts_with("blk.")) continue;
    for (const Presence& each : kPresences) {
      if (name.ends_with(each.tail)) set_all(out, each.field, true);
    }
  }
}

// The layers that have a router.
void set_moe_layers(const GgufFile& file, const ModelConfig& config, ConfigFields* out) {
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    if (file.tensors().contains(fmt::format("blk.{}.ffn_gate_inp.weight", i))) layers.push_back(i);
  }
  if (layers.empty()) return;
  out->set("gguf.moe_layers", layers);
  out->set("moe_layers", layers);
  std::vector<std::int64_t> dense;
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    if (!std::binary_search(layers.begin(), layers.end(), i)) dense.push_back(i);
  }
  out->set("mlp_only_layers", dense);
  out->set("expert_layer_offset", layers.front());
  out->set("expert_layer_period",
           layers.size() > 1 ? layers[1] - layers[0] : std::int64_t{config.num_layers});
}

// Latent attention: key_length_mla and value_length_mla are a head's sizes before absorption; older
// files have them as key_length and value_length.
Status set_mla(const ArchFields& fields, const ModelConfig& config, ConfigFields* out) {
  if (!out->has("kv_lora_rank")) return {};
  std::int64_t value = 0;
  QUIRE_TRY(
      fields.read_int("attention.value_length", config.hidden_size / config.num_heads, &value));
  QUIRE_TRY(fields.read_int("attention.value_length_mla", value, &value));
  const std::int64_t rope = config.rope.rotary_dim, nope = config.head_dim - rope;
  if (value < 1 || value > 4096 || nope < 1) {
    return make_error(ErrorCode::kBadFile,
                      "{}: latent attention with heads of {} ({} of them rotary) and values of {}",
                      fields.name(), config.head_dim, rope, value);
  }
  out->set("qk_rope_head_dim", rope);
  out->set("qk_nope_head_dim", nope);
  out->set("v_head_dim", value);
  out->set("gguf.mla_norm_eps", config.norm_eps);
  return {};
}

void set_routing(const ArchFields& fields, const ModelConfig& config, ConfigFields* out) {
  if (!out->has("num_experts")) return;
  const std::int64_t gating = fields.integer("expert_gating_func").value_or(0);
  if (gating == 1 || gating == 2) out->set("scoring_func", gating == 2 ? "sigmoid" : "softmax");
  const bool grouped = out->integer("n_group", 1) > 1;
  if (config.architecture == "deepseek_v3") out->set("topk_method", "noaux_tc");
  if (config.architecture == "deepseek_v2") {
    out->set("topk_method", grouped ? "group_limited_greedy" : "greedy");
  }
}

void set_state_space(const ArchFields& fields, const ModelConfig& config, ConfigFields* out) {
  const std::int64_t inner = fields.integer("ssm.inner_size").value_or(0);
  if (inner <= 0) return;
  out->set("expand", inner / config.hidden_size);
  out->set("mamba_expand", inner / config.hidden_size);
  if (config.architecture == "mamba2") out->set("num_heads", std::int64_t{config.num_heads});
  if (config.architecture == "granitemoehybrid") {
    const std::int64_t heads = fields.integer("ssm.time_step_rank").value_or(0);
    out->set("mamba_n_heads", heads);
    if (heads > 0) out->set("mamba_d_head", inner / heads);
  }
  const std::int64_t value_heads = out->integer("linear_num_value_heads", 0);
  if (value_heads > 0) out->set("linear_value_head_dim", inner / value_heads);
}

// gemma2, gemma3: llama.cpp scales by the head's size, but the 27B models by hidden / heads.
void set_query_scale(const ModelConfig& config, ConfigFields* out) {
  const bool gemma2 = config.architecture == "gemma2",
             gemma3 = config.architecture == "gemma3_text";
  if (!gemma2 && !gemma3) return;
  const bool is_27b = config.num_layers == (gemma2 ? 46 : 62);
  out->set("query_pre_attn_scalar",
           is_27b ? config.hidden_size / config.num_heads : std::int64_t{config.head_dim});
}

// Every n-th layer without rotary, as the list that config.json has: 1 for a layer with it.
void set_rope_layers(const ModelConfig& config, ConfigFields* out) {
  std::int64_t every = out->integer("no_rope_layer_interval", 0);
  if (every < 1) return;
  // A Llama 4 without experts has rotary everywhere.
  if (config.architecture == "llama4_text" && !out->has("num_experts"))
    every = config.num_layers + 1;
  std::vector<std::int64_t> with_rope;
  for (std::int64_t i = 0; i < config.num_layers; ++i) with_rope.push_back((i + 1) % every != 0);
  out->set("no_rope_layers", with_rope);
}

void set_family_facts(const ArchFields& fields, const ModelConfig& config, ConfigFields* out) {
  if (config.architecture == "falcon") {
    const bool two_norms = fields.has_tensor("blk.0.attn_norm_2.weight");
    out->set("new_decoder_architecture", two_norms || config.num_kv_heads > 1);
    out->set("num_ln_in_parallel_attn", std::int64_t{two_norms ? 2 : 1});
  }
  if (config.architecture == "mpt") {
    out->set("attn_config.alibi", out->number("attn_config.alibi_bias_max", 0) > 0);
    out->set("no_bias", !out->boolean("bias", false));
  }
  // Granite's switch for rotary positions.
  if (config.architecture == "granitemoehybrid") {
    const GgufValue* rotary = fields.find("rope.scaling.finetuned");
    const bool* flag = rotary == nullptr ? nullptr : std::get_if<bool>(rotary);
    if (flag == nullptr || *flag) out->set("position_embedding_type", "rope");
  }
  if (config.architecture == "llama4_text") {
    // The 128-expert model has no norm of Q and K.
    out->set("use_qk_norm", out->integer("num_experts", 0) != 128);
    out->set("intermediate_size_mlp", fields.integer("feed_forward_length").value_or(0));
  }
}

}  // namespace

Status ArchFields::read_float(std::string_view suffix, std::optional<double> fallback,
                              double* out) const {
  std::optional<double> value = number(suffix);
  if (!value && find(suffix) == nullptr) value = fallback;
  if (!value || !std::isfinite(*value)) {
    return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is missing or not a number", name(),
                      key(suffix));
  }
  *out = *value;
  return {};
}

std::vector<std::int64_t> ArchFields::integers(std::string_view suffix) const {
  const GgufArray* array = file_.get_array(key(suffix));
  return array == nullptr ? std::vector<std::int64_t>{} : array->ints;
}

Result<std::int64_t> ArchFields::one_int(std::string_view suffix) const {
  if (const auto number = file_.get_int(key(suffix))) return *number;
  const GgufArray* array = file_.get_array(key(suffix));
  if (array == nullptr || array->ints.empty()) {
    return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is not an integer", name(),
                      key(suffix));
  }
  std::int64_t one = 0;
  for (std::int64_t each : array->ints) {
    if (each == 0 || each == one) continue;
    if (one != 0) {
      return make_error(ErrorCode::kUnsupported,
                        "{}: metadata \"{}\" differs between layers ({} "
                        "and {}), which is not supported",
                        name(), key(suffix), one, each);
    }
    one = each;
  }
  return one;
}

Status set_gguf_fields(const ArchFields& fields, ModelConfig* config) {
  ConfigFields* out = &config->fields;
  for (const Constant& each : kConstants) {
    if (each.model_type == config->architecture) {
      out->set(std::string(each.field), whole_or_real(each.value));
    }
  }
  set_sizes(*config, out);
  set_numbers(fields, out);
  set_presences(fields.file(), out);
  set_moe_layers(fields.file(), *config, out);
  set_routing(fields, *config, out);
  set_state_space(fields, *config, out);
  set_query_scale(*config, out);
  set_rope_layers(*config, out);
  set_family_facts(fields, *config, out);
  return set_mla(fields, *config, out);
}

}  // namespace quire
