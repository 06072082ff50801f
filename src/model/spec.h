// What a decoder-only model is made of, as data. An architecture's file turns a ModelConfig into a
// ModelSpec; Transformer (transformer.h) loads and runs any ModelSpec. A feature of a new
// architecture is an option here or a new small layer, never a model's name in an `if`.
//
// Weight names are relative: a layer's to LayerSpec::prefix. ".weight" and ".bias" are added to
// every name but those of plain vectors (said there). Names are Hugging Face's; a GGUF's are mapped
// to them by the weight source.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tensor/op_kinds.h"
#include "weights/model_config.h"

namespace quire {

struct NormSpec {
  NormKind kind = NormKind::kNone;
  std::string name;   // empty: no parameters (OLMo's LayerNorm, L2)
  bool bias = false;  // a bias as well (LayerNorm; PhiMoE from GGUF has an RMS norm with one)
  float offset =
      0.0f;  // the weight used is the stored one plus this (1: Gemma, Nemotron, from Hugging Face)
  float eps = 1e-5f;
};

// Where q, k and v come from.
enum class QkvLayout : std::uint8_t {
  kSeparate,  // three matrices
  kFused,     // one matrix, rows q | k | v
  kPerHead,   // one matrix, rows [head][q k v][head_dim] (GPT-NeoX, BLOOM)
  kPerGroup,  // one matrix, rows [kv head][q heads of the group, k, v][head_dim] (Falcon's new
              // decoder)
};

struct AttentionSpec {
  std::int32_t q_heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0.0f;  // of q.k; 0: 1 / sqrt(head_dim)
  QkvLayout layout = QkvLayout::kSeparate;
  bool transposed = false;  // stored [in, out] (GPT-2's Conv1D)
  std::string q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj";
  std::string qkv = "self_attn.qkv_proj";  // when fused
  std::string output = "self_attn.o_proj";
  bool require_qkv_bias = false,
       require_output_bias = false;  // else a bias is taken where the file has one
  bool ignore_bias = false;
  bool ignore_output_bias = false;  // ERNIE 4.5 from GGUF
  std::int32_t rope = -1;           // index into ModelSpec::ropes; -1: no rotary positions
  NormSpec q_norm, k_norm;
  bool norm_all_heads = false;  // one norm over all heads together (OLMo 2), else per head_dim
  bool norm_per_head_weights =
      false;  // per head_dim, but every head has weights of its own (StableLM, Cohere)
  bool norm_after_rope = false;  // Hunyuan
  float clip_qkv = 0.0f;         // clamp q, k and v to +-this, after norms; 0: off
  float soft_cap = 0.0f;         // scores: cap * tanh(score / cap); 0: off
  std::int32_t window = 0;       // keys a query reaches, itself included; 0: all
  std::int32_t chunk = 0;        // keys of the same block of this many positions only; 0: off
  std::string sinks;  // vector [q_heads] of extra softmax logits; name in full; empty: none
  std::vector<float>
      alibi_slopes;  // [q_heads], added as slope * (key position - query position); empty: off
  // q *= 1 + scale * log(1 + floor((position + offset) / floor)); scale 0: off. Llama 4 (offset 1,
  // on layers without rotary), Ministral 3 (offset 0).
  float temperature_scale = 0.0f;
  float temperature_floor = 0.0f;
  float temperature_offset = 1.0f;
  bool output_gate = false;  // Qwen3-Next: q_proj gives [head][q, gate]; output *= sigmoid(gate)
};

// Multi-head latent attention (DeepSeek V2), in its absorbed form: the cache holds the latent and
// the rotary key.
struct MlaSpec {
  std::int32_t heads = 0, q_lora_rank = 0, kv_lora_rank = 0;  // q_lora_rank 0: plain q_proj
  std::int32_t nope_dim = 0, rope_dim = 0, v_dim = 0;
  float scale = 0.0f;
  std::int32_t rope = -1;
  NormSpec q_norm, kv_norm;  // of the two latents
  std::string q = "self_attn.q_proj", q_a = "self_attn.q_a_proj", q_b = "self_attn.q_b_proj";
  std::string kv_a = "self_attn.kv_a_proj_with_mqa", kv_b = "self_attn.kv_b_proj",
              output = "self_attn.o_proj";
  // A GGUF may have these two in place of kv_b: [heads, kv_lora_rank, nope_dim] and [heads, v_dim,
  // kv_lora_rank].
  std::string k_b = "self_attn.k_b_proj", v_b = "self_attn.v_b_proj";
};

// State-space and convolution mixers: sizes as their papers name them; details in
// layers/recurrent.h.
struct MambaSpec {  // Mamba 1 (Gu and Dao, 2023)
  std::int32_t inner = 0, state = 0, conv = 0, dt_rank = 0;
  bool conv_bias = true, proj_bias = false;
  float dt_norm_eps = 0.0f;    // Jamba: RMS norms on dt, B and C; 0: none
  std::string name = "mixer";  // prefix of in_proj, conv1d, x_proj, dt_proj, A_log, D, out_proj
};
struct Mamba2Spec {  // Mamba 2 (Dao and Gu, 2024)
  std::int32_t inner = 0, heads = 0, head_dim = 0, groups = 0, state = 0, conv = 0;
  bool conv_bias = true, proj_bias = false;
  float norm_eps = 1e-5f, dt_min = 0.0f, dt_max = 0.0f;  // dt_max 0: infinity
  bool norm_per_group = false;  // GGUF: as mamba_ssm; transformers: over all channels
  std::string name = "mixer";
};
struct DeltaNetSpec {  // gated delta net (Yang et al., 2024; Qwen3-Next)
  std::int32_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, conv = 0;
  float norm_eps = 1e-6f;
  std::string name = "linear_attn";
};
struct ShortConvSpec {  // LFM2
  std::int32_t conv = 0;
  bool bias = false;
  std::string name = "conv";
};

struct MlpSpec {
  std::int32_t intermediate = 0;
  bool gated = true;  // down(act(gate) * up), else down(act(up))
  ActivationKind activation = ActivationKind::kSilu;
  float activation_alpha = 1.702f, activation_limit = 7.0f;  // kSwigluOai
  std::string gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj";
  std::string fused_gate_up;  // one matrix, gate | up; wins over gate and up
  std::string xielu;  // prefix of alpha_p, alpha_n, beta, eps (kXielu); names in full under it
  bool transposed = false;  // stored [in, out]
  bool require_bias = false;
  bool ignore_bias = false;
};

enum class ExpertStorage : std::uint8_t {
  kSeparate,  // "<prefix>.<e>.<name>" matrices
  kStacked,   // one tensor [experts, out, in] per matrix (GGUF, DBRX-like); see gate, up, down
  kStackedTransposed,  // one tensor [experts, in, out] (Llama 4, gpt-oss)
};

struct MoeSpec {
  std::int32_t experts = 0, top_k = 0, intermediate = 0;
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;          // chosen weights divided by their sum
  float normalize_epsilon = 0.0f;  // added to that sum
  float weight_scale = 1.0f;       // routed_scaling_factor
  std::int32_t groups = 0,
               top_groups = 0;    // group-limited: only experts of the best groups; 0: off
  bool group_score_top2 = false;  // a group's score: sum of its two best (V3), else its best (V2)
  float jitter = 0.0f;            // kSparseMixer's threshold
  std::string router = "mlp.gate";
  bool router_bias = false;  // a bias of the router's matrix
  std::string
      correction_bias;  // vector [experts] added for the choice only; name in full; empty: none
  ExpertStorage storage = ExpertStorage::kSeparate;
  std::string expert_prefix = "mlp.experts";
  std::string expert_suffix =
      ".weight";   // of stacked tensors; empty: plain parameters (Llama 4, gpt-oss, DBRX)
  MlpSpec expert;  // names relative to expert_prefix (and the expert's number)
  bool interleaved_gate_up = false;  // gpt-oss: rows g0 u0 g1 u1 ... of the fused matrix
  bool down_transposed = false;  // DBRX: gate and up as the storage says, down [experts, in, out];
                                 // all [experts * intermediate, hidden]
  bool expert_bias = false;      // gpt-oss: "<name>_bias" [experts, out]
  bool has_shared = false;
  MlpSpec shared;           // names relative to the layer
  std::string shared_gate;  // sigmoid(x . w) scales the shared expert; empty: none
};

using MixerSpec =
    std::variant<AttentionSpec, MlaSpec, MambaSpec, Mamba2Spec, DeltaNetSpec, ShortConvSpec>;
using FeedForwardSpec = std::variant<std::monostate, MlpSpec, MoeSpec>;

// h += r * post(mixer(norm(h)));  h += r * post(mlp(norm(h))).  A norm of kind kNone passes its
// input on. After each of the two, where there is a sum norm: h = sum_norm(h).
struct LayerSpec {
  std::string prefix;  // "model.layers.0."
  NormSpec input_norm, post_mixer_norm, mlp_norm, post_mlp_norm;
  NormSpec mixer_sum_norm, mlp_sum_norm;  // the first Transformer's norms (OPT-350m)
  // The residual is what the norm gives: h = norm(h), then h += ... (a variant of BLOOM).
  bool residual_after_norm = false;
  MixerSpec mixer;
  FeedForwardSpec mlp;
  // mixer and mlp both read the layer's input: h += mixer(input_norm(h)) + mlp(mlp_norm(h)); with
  // mlp_norm of kind kNone the mlp reads input_norm(h) as well.
  bool parallel = false;
  float residual_multiplier = 1.0f;
};

struct ModelSpec {
  std::int64_t vocab_size = 0, hidden_size = 0;
  std::int32_t online_bits = 0;  // 8, 4: plain matrices of the layers are quantized at load
  std::string embedding = "model.embed_tokens";
  // Embedding and head of another width than the layers, and the matrices between (OPT-350m); 0:
  // hidden_size, and none.
  std::int64_t embedding_size = 0;
  std::string project_in, project_out;
  float embedding_multiplier = 1.0f;
  NormSpec embedding_norm;           // names in full
  std::string position_embedding;    // learned positions [max, hidden]; empty: none
  std::int32_t position_offset = 0;  // OPT: 2
  std::vector<RopeConfig> ropes;     // kinds of rotary positions that layers refer to
  std::vector<LayerSpec> layers;
  NormSpec final_norm;  // name in full
  bool tied_head = false;
  std::string head = "lm_head";
  bool head_bias = false;
  float logit_multiplier = 1.0f;
  float logit_soft_cap = 0.0f;  // cap * tanh(logit / cap); 0: off
};

}  // namespace quire
