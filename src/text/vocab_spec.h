// A tokenizer's vocabulary as a model file states it, free of any file format: filled from a GGUF's
// tokenizer.ggml.* keys by the layer above. `text` includes nothing of `weights`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace quire {

struct VocabSpec {
  enum class Kind { kBpe, kSentencePiece };  // GGUF tokenizer.ggml.model: "gpt2", "llama"
  // GGUF's token types.
  enum class TokenType : std::int32_t {
    kNormal = 1,
    kUnknown,
    kControl,
    kUserDefined,
    kUnused,
    kByte
  };

  Kind kind = Kind::kBpe;
  std::string pre;                  // name of the pre-tokenizer (BPE), e.g. "smollm", "llama-bpe"
  std::vector<std::string> tokens;  // text of id i in the vocabulary's own alphabet
  std::vector<float> scores;        // SentencePiece; may be empty
  std::vector<TokenType> types;     // may be empty: all normal
  std::vector<std::string> merges;  // "a b" (BPE)
  std::optional<TokenId> bos, eos, eot, unk, pad;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

}  // namespace quire
