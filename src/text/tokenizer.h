// Text to token ids and back to bytes, by the Hugging Face `tokenizers` crate. Thread safe once
// built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "text/vocab_spec.h"

namespace quire {

// What the chat template and the engine want to know of special tokens.
struct SpecialTokens {
  std::optional<TokenId> bos, eos, unk, pad;
  std::string bos_token, eos_token, unk_token, pad_token;  // texts; empty when absent
  std::vector<TokenId> end_ids;  // every id that ends a turn known here (eos, eot, ...), ascending
};

// Where a token stands in a text: its first character and the one behind its last.
struct TokenSpan {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const TokenSpan&) const = default;
};

class Tokenizer {
 public:
  // From tokenizer.json's text; tokenizer_config.json's text may be empty.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view tokenizer_json,
                                                      std::string_view tokenizer_config_json);
  // From a model file's own vocabulary. An unknown pre-tokenizer is refused by name.
  static Result<std::unique_ptr<Tokenizer>> from_vocab(const VocabSpec& spec);
  ~Tokenizer();

  // Special tokens in `text` are recognised as such. add_special_tokens adds bos/eos as the model's
  // own post-processor or metadata says; never a second bos.
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special_tokens) const;
  // Also sets *spans, one a token; those that were added stand nowhere: 0, 0.
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special_tokens,
                                      std::vector<TokenSpan>* spans) const;

  // The bytes that token `id` stands for in running text (byte-level alphabet and byte fallback
  // undone, SentencePiece's mark as a space); a special token gives its own text. Empty for ids out
  // of range.
  std::string_view token_bytes(TokenId id) const;
  // The token's spelling in the vocabulary, e.g. "Ġthe"; empty for ids out of range.
  std::string_view token_text(TokenId id) const;
  bool is_special(TokenId id) const;  // control tokens, left out with skip_special_tokens
  std::optional<TokenId> token_id(std::string_view token_text) const;
  std::size_t vocab_size() const;
  const SpecialTokens& special() const;
  // Text of ids in one go; same bytes as Detokenizer gives, invalid UTF-8 replaced by U+FFFD.
  std::string decode(const std::vector<TokenId>& ids, bool skip_special_tokens) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
