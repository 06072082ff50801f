// Token ids, one at a time, to text that is valid UTF-8 at every step: bytes of an incomplete
// character are held back until it is whole. One per choice; owned by the output thread. Chunks
// joined equal the whole text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace quire {

class Detokenizer {
 public:
  // `spaces_between_special_tokens` changes nothing: no vocabulary read here puts spaces between
  // its special tokens that are not in their own text.
  // `shown`: special tokens whose text is given though others are skipped; null: none.
  Detokenizer(const Tokenizer* tokenizer, bool skip_special_tokens,
              bool spaces_between_special_tokens = true,
              std::shared_ptr<const std::vector<TokenId>> shown = nullptr);
  // Appends the token; returns the text that became complete (maybe empty). Bytes that can never
  // become valid UTF-8 are given as U+FFFD.
  std::string push(TokenId id);
  // At the end: what was held back, incomplete bytes as one U+FFFD.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::shared_ptr<const std::vector<TokenId>> shown_;
  std::string pending_;  // at most 3 bytes: the start of a character
};

}  // namespace quire
