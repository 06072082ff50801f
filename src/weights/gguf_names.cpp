// Tables only: a name is looked up among the family's own rows, then among the common ones. The
// constants are those of GGUF's writers (gguf-py's tensor name map).
#include "weights/gguf_names.h"

#include <algorithm>
#include <span>

namespace quire {
namespace {

// A row with a suffix (".weight", ".bias") stands for that tensor alone; one without for any.
struct Row {
  std::string_view gguf, hf;
};
struct GgufFamily {
  std::string_view name_set;
  std::string_view layer_prefix;  // before the layer's number
  std::span<const Row> globals, layers;
  std::span<const Row> more_layers{};  // of another family, or of several; layers win
  // What "mlp." and "mixer." of the common rows are called.
  std::string_view mlp = "mlp.", mixer = "mixer.";
};

constexpr Row kCommonGlobals[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};
// Between "blk.N." and the suffix; in Hugging Face's after "<layer_prefix>N.".
constexpr Row kCommonLayers[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"attn_k_b", "self_attn.k_b_proj"},
    {"attn_v_b", "self_attn.v_b_proj"},
    {"attn_sinks.weight", "self_attn.sinks"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_x", "mixer.x_proj"},
    {"ssm_dt.bias", "mixer.dt_bias"},
    {"ssm_a", "mixer.A"},
    {"ssm_d", "mixer.D"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
};

constexpr Row kApertus[] = {
    {"attn_norm", "attention_layernorm"},
    {"ffn_norm", "feedforward_layernorm"},
};
constexpr Row kBloomGlobals[] = {
    {"token_embd", "transformer.word_embeddings"},
    {"token_embd_norm", "transformer.word_embeddings_layernorm"},
    {"output_norm", "transformer.ln_f"},
};
constexpr Row kBloom[] = {
    {"attn_qkv", "self_attention.query_key_value"},
    {"attn_output", "self_attention.dense"},
    {"ffn_up", "mlp.dense_h_to_4h"},
    {"ffn_down", "mlp.dense_4h_to_h"},
};
constexpr Row kDbrxGlobals[] = {
    {"token_embd", "transformer.wte"},
    {"output_norm", "transformer.norm_f"},
};
constexpr Row kDbrx[] = {
    {"attn_norm", "norm_attn_norm.norm_1"},   {"attn_output_norm", "norm_attn_norm.norm_2"},
    {"attn_qkv", "norm_attn_norm.attn.Wqkv"}, {"attn_output", "norm_attn_norm.attn.out_proj"},
    {"ffn_gate_inp", "ffn.router.layer"},
};
constexpr Row kErnieMoe[] = {
    {"exp_probs_b.bias", "mlp.moe_statics.e_score_correction_bias"},
};
constexpr Row kFalconGlobals[] = {
    {"token_embd", "transformer.word_embeddings"},
    {"output_norm", "transformer.ln_f"},
};
constexpr Row kFalconTwoNorms[] = {
    {"attn_norm", "ln_mlp"},
    {"attn_norm_2", "ln_attn"},
};
constexpr Row kGemma23[] = {
    {"ffn_norm", "pre_feedforward_layernorm"},
};
constexpr Row kGlm[] = {
    {"ffn_up", "mlp.gate_up_proj"},
};
constexpr Row kGlm4[] = {
    {"ffn_up", "mlp.gate_up_proj"},
    {"post_attention_norm", "post_self_attn_layernorm"},
    {"post_ffw_norm", "post_mlp_layernorm"},
};
constexpr Row kGpt2Globals[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
};
constexpr Row kGpt2[] = {
    {"attn_norm", "ln_1"}, {"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
    {"ffn_norm", "ln_2"},  {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"},
};
constexpr Row kNeoxGlobals[] = {
    {"token_embd", "gpt_neox.embed_in"},
    {"output_norm", "gpt_neox.final_layer_norm"},
    {"output", "embed_out"},
};
constexpr Row kNeox[] = {
    {"attn_qkv", "attention.query_key_value"},
    {"attn_output", "attention.dense"},
};
constexpr Row kGptOss[] = {
    {"ffn_gate_inp", "mlp.router"},
};
constexpr Row kGraniteMoe[] = {
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_gate_shexp", "shared_mlp.gate_proj"},
    {"ffn_up_shexp", "shared_mlp.up_proj"},
    {"ffn_down_shexp", "shared_mlp.output_linear"},
};
// Without experts the shared MLP is the only one.
constexpr Row kGraniteHybrid[] = {
    {"ffn_gate", "shared_mlp.gate_proj"},
    {"ffn_up", "shared_mlp.up_proj"},
    {"ffn_down", "shared_mlp.output_linear"},
};
constexpr Row kHunyuan[] = {
    {"attn_q_norm", "self_attn.query_layernorm"},
    {"attn_k_norm", "self_attn.key_layernorm"},
    {"ffn_gate_inp", "mlp.gate.wg"},
    {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_mlp.up_proj"},
    {"ffn_down_shexp", "mlp.shared_mlp.down_proj"},
};
constexpr Row kJambaGlobals[] = {
    {"output_norm", "model.final_layernorm"},
};
constexpr Row kJamba[] = {
    {"ffn_norm", "pre_ff_layernorm"},      {"ffn_gate_inp", "feed_forward.router"},
    {"ssm_dt_norm", "mamba.dt_layernorm"}, {"ssm_b_norm", "mamba.b_layernorm"},
    {"ssm_c_norm", "mamba.c_layernorm"},   {"ssm_dt", "mamba.dt_proj"},
};
constexpr Row kLfm2Globals[] = {
    {"token_embd_norm", "model.embedding_norm"},
    {"output_norm", "model.embedding_norm"},
};
constexpr Row kLfm2[] = {
    {"attn_norm", "operator_norm"},
    {"ffn_norm", "ffn_norm"},
    {"attn_output", "self_attn.out_proj"},
    {"attn_q_norm", "self_attn.q_layernorm"},
    {"attn_k_norm", "self_attn.k_layernorm"},
    {"shortconv.conv", "conv.conv"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.out_proj", "conv.out_proj"},
    {"ffn_gate", "feed_forward.w1"},
    {"ffn_down", "feed_forward.w2"},
    {"ffn_up", "feed_forward.w3"},
    {"ffn_gate_inp", "feed_forward.gate"},
    {"ffn_gate_exps", "feed_forward.experts.w1"},
    {"ffn_down_exps", "feed_forward.experts.w2"},
    {"ffn_up_exps", "feed_forward.experts.w3"},
    {"exp_probs_b.bias", "feed_forward.expert_bias"},
};
constexpr Row kLlama4[] = {
    {"ffn_gate_inp", "feed_forward.router"},
    {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
    {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
    {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"},
};
constexpr Row kMambaGlobals[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
};
constexpr Row kMamba[] = {
    {"attn_norm", "norm"},
    {"ssm_dt", "mixer.dt_proj"},
};
constexpr Row kMamba2[] = {
    {"attn_norm", "norm"},
};
constexpr Row kMixtral[] = {
    {"ffn_gate_exps", "block_sparse_moe.experts.w1"},
    {"ffn_down_exps", "block_sparse_moe.experts.w2"},
    {"ffn_up_exps", "block_sparse_moe.experts.w3"},
};
constexpr Row kMiniMax[] = {
    {"exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"},
};
constexpr Row kMptGlobals[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.norm_f"},
};
constexpr Row kMpt[] = {
    {"attn_norm", "norm_1"},          {"ffn_norm", "norm_2"},       {"attn_qkv", "attn.Wqkv"},
    {"attn_output", "attn.out_proj"}, {"ffn_up", "ffn.up_proj"},    {"ffn_down", "ffn.down_proj"},
    {"attn_q_norm", "attn.q_ln"},     {"attn_k_norm", "attn.k_ln"},
};
constexpr Row kPhiGlobals[] = {
    {"output_norm", "model.final_layernorm"},
};
constexpr Row kPhi[] = {
    {"attn_output", "self_attn.dense"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"},
};
constexpr Row kPhi3[] = {
    {"ffn_up", "mlp.gate_up_proj"},
};
constexpr Row kQwenMoe[] = {
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};
constexpr Row kQwen3Next[] = {
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_ba", "linear_attn.in_proj_ba"},
};
constexpr Row kStableLm[] = {
    {"attn_q_norm", "self_attn.q_layernorm"},
    {"attn_k_norm", "self_attn.k_layernorm"},
};
constexpr Row kStarcoder2[] = {
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
};

constexpr std::string_view kModel = "model.layers.", kTransformer = "transformer.h.";
constexpr std::string_view kBackbone = "backbone.layers.", kMlp = "mlp.", kMixer = "mixer.";
constexpr std::string_view kForward = "feed_forward.", kSparse = "block_sparse_moe.";
const GgufFamily kCommon = {"", kModel, {}, {}};
const GgufFamily kGgufFamilies[] = {
    {"apertus", kModel, {}, kApertus},
    {"bloom", kTransformer, kBloomGlobals, kBloom},
    {"dbrx", "transformer.blocks.", kDbrxGlobals, kDbrx, {}, "ffn."},
    {"ernie4_5_moe", kModel, {}, kErnieMoe},
    {"falcon", kTransformer, kFalconGlobals, kBloom},
    {"falcon, two norms", kTransformer, kFalconGlobals, kFalconTwoNorms, kBloom},
    {"gemma2", kModel, {}, kGemma23},
    {"gemma3_text", kModel, {}, kGemma23},
    {"glm", kModel, {}, kGlm},
    {"glm4", kModel, {}, kGlm4},
    {"gpt2", kTransformer, kGpt2Globals, kGpt2},
    {"gpt_bigcode", kTransformer, kGpt2Globals, kGpt2},
    {"gpt_neox", "gpt_neox.layers.", kNeoxGlobals, kNeox, kBloom},
    {"gpt_oss", kModel, {}, kGptOss},
    {"granitemoe", kModel, {}, kGraniteMoe, {}, kSparse},
    {"granitemoehybrid", kModel, {}, kGraniteMoe, kGraniteHybrid, kSparse, "mamba."},
    {"granitemoeshared", kModel, {}, kGraniteMoe, {}, kSparse},
    {"hunyuan_v1_dense", kModel, {}, kHunyuan},
    {"hunyuan_v1_moe", kModel, {}, kHunyuan},
    {"jamba", kModel, kJambaGlobals, kJamba, {}, kForward, "mamba."},
    {"lfm2", kModel, kLfm2Globals, kLfm2},
    {"lfm2_moe", kModel, kLfm2Globals, kLfm2},
    {"llama4_text", kModel, {}, kLlama4, {}, kForward},
    {"mamba", kBackbone, kMambaGlobals, kMamba},
    {"mamba2", kBackbone, kMambaGlobals, kMamba2},
    {"minimax_m2", kModel, {}, kMixtral, kMiniMax, kSparse},
    {"mixtral", kModel, {}, kMixtral, {}, kSparse},
    {"mpt", "transformer.blocks.", kMptGlobals, kMpt},
    {"phi", kModel, kPhiGlobals, kPhi},
    {"phi3", kModel, {}, kPhi3},
    {"phimoe", kModel, {}, kMixtral, {}, kSparse},
    {"qwen2_moe", kModel, {}, kQwenMoe},
    {"qwen3_moe", kModel, {}, kQwenMoe},
    {"qwen3_next", kModel, {}, kQwen3Next, kQwenMoe, kMlp, "linear_attn."},
    {"stablelm", kModel, {}, kStableLm},
    {"starcoder2", kModel, {}, kStarcoder2},
};

const GgufFamily& family_of(std::string_view name_set) {
  const auto* found =
      std::find_if(std::begin(kGgufFamilies), std::end(kGgufFamilies),
                   [&](const GgufFamily& family) { return family.name_set == name_set; });
  return found == std::end(kGgufFamilies) ? kCommon : *found;
}

// "attn_q.weight": the whole name's row, else that of the name before ".weight", ".bias" or
// nothing.
std::string look_up(std::span<const Row> rows, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  std::string_view stem = name, suffix;
  if (dot != std::string_view::npos &&
      (name.substr(dot) == ".weight" || name.substr(dot) == ".bias")) {
    stem = name.substr(0, dot);
    suffix = name.substr(dot);
  }
  for (const Row& row : rows) {
    if (row.gguf == name) return std::string(row.hf);
  }
  for (const Row& row : rows) {
    if (row.gguf == stem) return std::string(row.hf).append(suffix);
  }
  return {};
}

void replace_prefix(std::string_view prefix, std::string_view with, std::string* name) {
  if (name->starts_with(prefix)) name->replace(0, prefix.size(), with);
}

}  // namespace

std::string gguf_name_set(const GgufFile& file, std::string_view model_type) {
  if (model_type == "falcon" && file.tensors().contains("blk.0.attn_norm_2.weight")) {
    return "falcon, two norms";
  }
  return std::string(model_type);
}

bool is_config_tensor(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
         name == "rope_factors_short.weight" || name.ends_with(".attn_rot_embd") ||
         name.ends_with(".rope_freqs.weight");
}

std::string hf_name_of_gguf(std::string_view name, std::string_view name_set) {
  const GgufFamily& family = family_of(name_set);
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) {
    std::string found = look_up(family.globals, name);
    return found.empty() ? look_up(kCommonGlobals, name) : found;
  }
  const std::size_t number_end = name.find('.', kBlock.size());
  if (number_end == std::string_view::npos) return {};
  const std::string_view number = name.substr(kBlock.size(), number_end - kBlock.size());
  const bool digits = !number.empty() && std::all_of(number.begin(), number.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return {};
  const std::string_view tail = name.substr(number_end + 1);
  std::string found = look_up(family.layers, tail);
  if (found.empty()) found = look_up(family.more_layers, tail);
  if (found.empty()) {
    found = look_up(kCommonLayers, tail);
    replace_prefix("mlp.", family.mlp, &found);
    replace_prefix("mixer.", family.mixer, &found);
  }
  if (found.empty()) return {};
  return std::string(family.layer_prefix).append(number).append(".").append(found);
}

}  // namespace quire
