// See special_tokens.h. Pure functions.
#include "text/special_tokens.h"

#include <algorithm>
#include <array>
#include <optional>

namespace quire {
namespace {

// A chat's turn often ends with another token than the stated eos: stopping at the eos alone lets
// the model run on. Marks of fill-in-the-middle (file separators, padding) are not ends of a turn.
constexpr std::array<std::string_view, 23> kEndTexts = {
    "<|eot_id|>",        // Llama 3
    "<|eom_id|>",        // Llama 3.1, before a tool's answer
    "<|im_end|>",        // ChatML
    "<|end|>",           // Phi, gpt-oss (see below)
    "<|return|>",        // gpt-oss
    "<|call|>",          // gpt-oss
    "<|flush|>",         // Solar
    "<|calls|>",         // Solar
    "<end_of_turn>",     // Gemma
    "<turn|>",           // Gemma 4
    "<|tool_response>",  // Gemma 4
    "<eos>",             // Gemma
    "<|endoftext|>",     // GPT-2, Qwen
    "<|end_of_text|>",   // Llama 3, Granite
    "</s>",              // Llama 2, Mistral
    "<EOT>",
    "_<EOT>",
    "[EOT]",                  // Kimi
    "[EOS]",                  // Kimi
    "<end_of_utterance>",     // SmolVLM
    "<｜end▁of▁sentence｜>",  // DeepSeek
    "<|end_of_turn|>",        // OpenChat
    "[e~[",                   // MiniMax
};

}  // namespace

bool is_end_token_text(std::string_view text) {
  return std::find(kEndTexts.begin(), kEndTexts.end(), text) != kEndTexts.end();
}

std::vector<TokenId> find_end_ids(const std::vector<MarkedToken>& marked,
                                  const std::vector<TokenId>& always) {
  const auto id_of = [&](std::string_view text) -> std::optional<TokenId> {
    const auto it = std::find_if(marked.begin(), marked.end(),
                                 [&](const MarkedToken& token) { return token.text == text; });
    return it == marked.end() ? std::nullopt : std::optional(it->id);
  };
  // Where an answer is several messages, "<|end|>" ends a message only; Gemma 4 keeps an unused
  // "</s>".
  const bool several_messages =
      (id_of("<|call|>") && id_of("<|return|>")) || (id_of("<|calls|>") && id_of("<|flush|>"));
  const bool unused_s = id_of("<|tool_response>").has_value();
  std::vector<TokenId> ids = always;
  for (const MarkedToken& token : marked) {
    if (several_messages && token.text == "<|end|>") continue;
    if (unused_s && token.text == "</s>") continue;
    if (is_end_token_text(token.text)) ids.push_back(token.id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace quire
