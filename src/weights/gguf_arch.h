// GGUF's architectures: which Hugging Face model type each one holds, and what a converter changed.
//
// What the builder of src/model/arch_*.cpp needs to know of a GGUF (ModelConfig::from_gguf):
// weights have Hugging Face's names and config.fields Hugging Face's fields; rope.interleaved,
// layer_types, sliding_window and norm_eps already say what the file means. Left to the
// architecture are these facts, in config.fields (boolean unless said otherwise, absent means
// false):
//
// gguf.norm_offset_baked: gemma, gemma2, gemma3_text, nemotron, qwen3_next
//     Norm weights are 1 + w already: NormSpec::offset 0 (qwen3_next's linear_attn.norm never had
//     1).
// gguf.fused_qkv: gpt_neox, bloom, falcon
//     query_key_value's rows are q | k | v (QkvLayout::kFused), not per head or group.
// gguf.untransposed: gpt2
//     Conv1D weights are [out, in].
// gguf.stacked_experts: all with experts
//     One tensor per matrix, [experts, out, in]; "<experts>.3.<name>" finds expert 3's part too, so
//     that ExpertStorage::kSeparate works.
// gguf.split_gate_up: gpt_oss, llama4_text, dbrx, granitemoe, granitemoeshared, granitemoehybrid
//     Experts are "<experts>.<e>.gate_proj", up_proj and down_proj, [out, in] each (and .bias of
//     gpt_oss), where the folder has fused or transposed tensors. <experts>: mlp.experts (gpt_oss),
//     feed_forward.experts (llama4_text), ffn.experts (dbrx), block_sparse_moe.experts
//     (granitemoe); granitemoeshared's shared expert: shared_mlp.gate_proj, up_proj, output_linear.
// gguf.mla_split_kv_b: deepseek_v2, deepseek_v3
//     self_attn.k_b_proj [heads, kv_lora, nope] and v_b_proj [heads, v, kv_lora], the absorbed
//     form, instead of kv_b_proj.
// gguf.mla_norm_eps: deepseek_v2, deepseek_v3, minicpm3
//     A number: the epsilon of the norms of the latents (transformers: always 1e-6).
// gguf.group_score_top2: deepseek_v2
//     Groups of experts are chosen by the sum of their two best.
// gguf.negative_a: mamba, mamba2, jamba, granitemoehybrid, qwen3_next
//     "<mixer>.A" = -exp(A_log) instead of A_log.
// gguf.norm_per_group: mamba2, granitemoehybrid
//     The gated norm is per group (Mamba2Spec::norm_per_group).
// gguf.linear_attn_split: qwen3_next
//     linear_attn.in_proj_qkv (rows q | k | v, all heads of each) and in_proj_z instead of
//     in_proj_qkvz; in_proj_ba is as ever.
// gguf.softmax_routing, gguf.rms_norm: phimoe
//     Softmax, top 2, normalized, no sparsemixer; RMS norms (with a bias) for LayerNorms.
// gguf.moe_layers: all with experts
//     A list: the numbers of the layers with experts.
//
// Shapes: require() and optional() take a tensor whose shape differs by dimensions of 1 only
// (conv1d [128, 4] for [128, 1, 4]). llama.cpp's constants are in the fields: gpt_oss swiglu_limit
// 7 and swiglu_alpha; minicpm3 scale_emb 12, scale_depth 1.4, dim_model_base 256; llama4_text
// chunks of 8192, attn_scale 0.1, floor_scale 8192, every 4th layer without rotary (no_rope_layers,
// 1: with); smollm3 likewise; gemma2 and gemma3_text query_pre_attn_scalar. apertus: the
// activation's numbers are the tensors mlp.act_fn.alpha_p, alpha_n, beta and eps, [1] each, as in
// the folder.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

enum class GgufRope : std::uint8_t {
  kNone,      // no rotary positions
  kHalves,    // pairs (i, i + rotary_dim / 2)
  kPairs,     // pairs (2i, 2i + 1), as the model itself has it
  kPermuted,  // pairs (2i, 2i + 1): the converter permuted the rows of Q and K for it
};

struct GgufArch {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // Hugging Face's; refined by hf_model_type()
  GgufRope rope = GgufRope::kHalves;
};

// nullptr when the architecture is not known.
const GgufArch* find_gguf_arch(std::string_view name);
// The known name that is spelled most like this one.
std::string_view nearest_gguf_arch(std::string_view name);

}  // namespace quire
