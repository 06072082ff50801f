// See detokenizer.h. Runs on the output thread, once per token.
#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace quire {

Detokenizer::Detokenizer(const Tokenizer* tokenizer, bool skip_special_tokens,
                         bool /*spaces_between_special_tokens*/,
                         std::shared_ptr<const std::vector<TokenId>> shown)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens), shown_(std::move(shown)) {}

std::string Detokenizer::push(TokenId id) {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) {
    const bool shown =
        shown_ != nullptr && std::find(shown_->begin(), shown_->end(), id) != shown_->end();
    if (!shown) return {};
  }
  pending_ += tokenizer_->token_bytes(id);
  std::string text;
  const std::size_t incomplete = append_utf8(pending_, text);
  pending_.erase(0, pending_.size() - incomplete);
  return text;
}

std::string Detokenizer::flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace quire
