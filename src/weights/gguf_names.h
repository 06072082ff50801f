// GGUF's tensor names, mapped to those of the Hugging Face model type that the file holds.
#pragma once

#include <string>
#include <string_view>

#include "weights/gguf_file.h"

namespace quire {

// The names that a model type's tensors have: the type itself, or a variant of it that the file's
// tensors tell (Falcon with two norms per layer).
std::string gguf_name_set(const GgufFile& file, std::string_view model_type);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight". Empty: not known there.
std::string hf_name_of_gguf(std::string_view name, std::string_view name_set = "");

// Tensors that are part of the configuration (rotary factors), not of the model's weights.
bool is_config_tensor(std::string_view name);

}  // namespace quire
