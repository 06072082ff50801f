// What the architectures' files share: a Llama-like decoder to start from, and readers of the
// fields that several families spell differently. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/spec.h"

namespace quire {

// Norms with the configuration's epsilon.
NormSpec rms_norm(const ModelConfig& config, std::string name);
NormSpec layer_norm(const ModelConfig& config, std::string name, bool bias = true);

// Llama: pre-norm layers "model.layers.N." of grouped-query attention with rotary positions
// (ropes[0]) and a gated SiLU MLP, the configuration's window in every layer, its biases required.
// A family changes what it does otherwise.
ModelSpec llama_like(const ModelConfig& config);

// Of a layer whose mixer is attention, and of one whose feed-forward part is an MLP.
AttentionSpec& attention_of(LayerSpec& layer);
MlpSpec& mlp_of(LayerSpec& layer);

// New prefixes "<prefix>N." for all layers.
void set_layer_prefix(ModelSpec& model, std::string_view prefix);
// The names and sizes of a decoder with LayerNorms and a plain MLP (the GPT family).
void use_layer_norms(const ModelConfig& config, ModelSpec& model, bool bias = true);
void use_plain_mlp(ModelSpec& model, const std::string& up, const std::string& down,
                   ActivationKind activation);

// Gives the layers that slide the configuration's window (and its sliding rope, where it has one)
// and the others none. layer_types of the file decide, else implied(layer).
void set_windows(const ModelConfig& config, ModelSpec& model,
                 const std::function<bool(std::int32_t)>& implied);
// The same question of one layer.
bool is_sliding(const ModelConfig& config, std::int32_t layer, bool implied);

// The configuration's activation, by any of its spellings; `otherwise` where it names none (a GGUF
// never does).
Result<ActivationKind> activation_of(const ModelConfig& config, ActivationKind otherwise);

// The first of these fields that the file has.
std::int64_t first_integer(const ModelConfig& config, std::initializer_list<std::string_view> names,
                           std::int64_t otherwise);
// The same for a period of layers: at least 1.
std::int64_t period_of(const ModelConfig& config, std::initializer_list<std::string_view> names,
                       std::int64_t otherwise);
// The feed-forward width: the configuration's, or 4 * hidden (the GPT family's default).
std::int32_t intermediate_or_4x(const ModelConfig& config);

// Mamba 2's mixer, from fields with this prefix ("mamba_": Granite 4 and others, which have their
// own spellings; empty: Mamba 2 itself).
Mamba2Spec mamba2_of(const ModelConfig& config, std::string_view prefix);

// Sizes of the routed experts under their usual spellings and the names of Qwen and DeepSeek
// ("mlp.gate", "mlp.experts.E.gate_proj"). A GGUF's stacked experts are found one by one, too.
MoeSpec moe_of(const ModelConfig& config);
// DeepSeek V3's: sigmoid scores, a correction bias for the choice, groups by their two best, shared
// experts "mlp.shared_experts" as wide as all of them together, scaled weights.
MoeSpec sigmoid_moe_of(const ModelConfig& config);
// What the file says of its router's scores; `otherwise` where it says nothing.
bool uses_sigmoid_router(const ModelConfig& config, bool otherwise);
// "<prefix>.gate_proj", ".up_proj", ".down_proj" of this width.
MlpSpec gated_mlp(std::string_view prefix, std::int64_t intermediate);

// BLOOM's slopes (Press et al., 2022): powers of 2^(-8/n) for n heads, a power of two; odd powers
// of 2^(-4/n) for the heads beyond it.
std::vector<float> alibi_slopes(std::int32_t heads, double max_bias = 8.0);

}  // namespace quire
