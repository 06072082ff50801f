// See sequence_grammar.h.
#include "engine/sequence_grammar.h"

#include <algorithm>
#include <utility>

namespace quire {

SequenceGrammar::SequenceGrammar(const Request& request)
    : grammar_(request.grammar),
      stop_token_ids_(request.stop.stop_token_ids),
      start_(request.grammar_start),
      begun_(start_.empty()),
      awaits_end_(!request.stop.ignore_eos && !request.stop.eos_ids.empty()) {}

// At the first mask, or for the first token of a choice that goes on from another one's prompt.
bool SequenceGrammar::make_matcher() {
  if (matcher_ != nullptr) return true;
  auto matcher = grammar_->matcher(stop_token_ids_, awaits_end_);
  if (!matcher) {
    error_ = matcher.error();
    return false;
  }
  matcher_ = std::move(*matcher);
  words_.resize(matcher_->num_mask_words());
  return true;
}

void SequenceGrammar::fill() {
  if (!begun_ || error_ || !make_matcher()) return;
  const auto allowed = matcher_->fill_mask(words_);
  if (!allowed) {
    error_ = allowed.error();
    return;
  }
  only_ = allowed->only;
}

TokenMask SequenceGrammar::mask() const {
  if (!begun_ || error_ || matcher_ == nullptr) return {};
  return {words_, only_};
}

void SequenceGrammar::accept(TokenId token) {
  if (error_) return;
  if (!begun_) {
    // The start is found where it stands whole; a token that does not go on with it may begin it.
    num_start_seen_ =
        token == start_[num_start_seen_] ? num_start_seen_ + 1 : (token == start_.front() ? 1 : 0);
    begun_ = num_start_seen_ == start_.size();
    return;
  }
  if (!make_matcher()) return;
  const auto accepted = matcher_->accept(token);
  if (!accepted) {
    error_ = accepted.error();
  } else if (!*accepted) {
    error_ = Error{ErrorCode::kInternal,
                   fmt::format("token {} was drawn, which the grammar does not allow", token), ""};
  }
}

bool SequenceGrammar::complete_without_end() const {
  return begun_ && !awaits_end_ && matcher_ != nullptr && matcher_->complete();
}

}  // namespace quire
