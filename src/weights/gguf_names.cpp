#include "weights/gguf_names.h"

#include <algorithm>

namespace quire {
namespace {

struct NamePair {
  std::string_view gguf, hf;
};

constexpr NamePair kGlobalNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};
// Between "blk.N." and ".weight" or ".bias"; in Hugging Face's after "model.layers.N.".
constexpr NamePair kLayerNames[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

template <std::size_t n>
std::string_view look_up(const NamePair (&pairs)[n], std::string_view gguf) {
  for (const NamePair& pair : pairs) {
    if (pair.gguf == gguf) return pair.hf;
  }
  return {};
}

}  // namespace

std::string hf_name_of_gguf(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(name);
  const std::string_view stem = name.substr(0, dot), suffix = name.substr(dot);  // ".weight"
  if (const auto hf = look_up(kGlobalNames, stem); !hf.empty()) {
    return std::string(hf).append(suffix);
  }
  constexpr std::string_view kBlock = "blk.";
  if (!stem.starts_with(kBlock)) return std::string(name);
  const std::size_t number_end = stem.find('.', kBlock.size());
  if (number_end == std::string_view::npos) return std::string(name);
  const std::string_view number = stem.substr(kBlock.size(), number_end - kBlock.size());
  const bool digits = !number.empty() && std::all_of(number.begin(), number.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
  const std::string_view hf = look_up(kLayerNames, stem.substr(number_end + 1));
  if (!digits || hf.empty()) return std::string(name);
  return std::string("model.layers.").append(number).append(".").append(hf).append(suffix);
}

}  // namespace quire
