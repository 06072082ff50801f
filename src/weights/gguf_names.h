// GGUF's tensor names of the llama family, mapped to Hugging Face's.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; unknown names stay as they
// are.
std::string hf_name_of_gguf(std::string_view name);

}  // namespace quire
