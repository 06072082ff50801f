// See sequence_grammar.h.
#include "engine/sequence_grammar.h"

#include <algorithm>
#include <utility>

namespace quire {

bool SequenceGrammar::needed(const Request& request) {
  return request.grammar != nullptr ||
         (request.thinking.budget >= 0 && !request.grammar_start.empty());
}

SequenceGrammar::SequenceGrammar(const Request& request)
    : grammar_(request.grammar),
      stop_token_ids_(request.stop.stop_token_ids),
      start_(request.grammar_start),
      thinking_(request.thinking),
      awaits_end_(!request.stop.ignore_eos && !request.stop.eos_ids.empty()) {
  if (start_.empty()) return;
  where_ = thinking_.begin_token >= 0 ? Where::kFirst
           : thinking_.budget == 0    ? Where::kEnding
                                      : Where::kThinking;
}

// At the first mask, or for the first token of a choice that goes on from another one's prompt.
bool SequenceGrammar::make_matcher() {
  if (matcher_ != nullptr) return true;
  auto matcher = grammar_->matcher(stop_token_ids_, awaits_end_);
  if (!matcher) {
    error_ = matcher.error();
    return false;
  }
  matcher_ = std::move(*matcher);
  return true;
}

void SequenceGrammar::fill() {
  if (error_) return;
  switch (where_) {
    case Where::kThinking:
      return;
    case Where::kEnding:
      return allow_only(start_[num_start_seen_]);
    case Where::kFirst:
    case Where::kBegun:
      if (grammar_ != nullptr) fill_from_grammar();
      if (!words_.empty() && where_ == Where::kFirst) allow_too(thinking_.begin_token);
  }
}

void SequenceGrammar::fill_from_grammar() {
  if (!make_matcher()) return;
  words_.resize(matcher_->num_mask_words());
  const auto allowed = matcher_->fill_mask(words_);
  if (!allowed) {
    error_ = allowed.error();
    return;
  }
  only_ = allowed->only;
}

void SequenceGrammar::allow_only(TokenId token) {
  words_.assign(static_cast<std::size_t>(token) / 32 + 1, 0);
  words_.back() = 1u << (static_cast<std::uint32_t>(token) % 32);
  only_ = token;
}

void SequenceGrammar::allow_too(TokenId token) {
  const std::size_t word = static_cast<std::size_t>(token) / 32;
  if (word >= words_.size()) words_.resize(word + 1, 0);
  words_[word] |= 1u << (static_cast<std::uint32_t>(token) % 32);
  if (only_ != token) only_ = -1;
}

TokenMask SequenceGrammar::mask() const {
  if (error_ || where_ == Where::kThinking) return {};
  if (where_ != Where::kEnding && matcher_ == nullptr) return {};
  return {words_, only_};
}

void SequenceGrammar::accept(TokenId token) {
  if (error_) return;
  switch (where_) {
    case Where::kFirst:
      if (token == thinking_.begin_token) {
        where_ = thinking_.budget == 0 ? Where::kEnding : Where::kThinking;
        return;
      }
      where_ = Where::kBegun;
      return accept_answer(token);
    case Where::kThinking:
      return accept_thinking(token);
    case Where::kEnding:
      if (++num_start_seen_ == start_.size()) where_ = Where::kBegun;
      return;
    case Where::kBegun:
      return accept_answer(token);
  }
}

void SequenceGrammar::accept_thinking(TokenId token) {
  // The end is found where it stands whole; a token that does not go on with it may begin it.
  num_start_seen_ =
      token == start_[num_start_seen_] ? num_start_seen_ + 1 : (token == start_.front() ? 1 : 0);
  if (num_start_seen_ == start_.size()) {
    where_ = Where::kBegun;
  } else if (++num_thought_ == thinking_.budget) {
    where_ = Where::kEnding;
  }
}

void SequenceGrammar::accept_answer(TokenId token) {
  if (grammar_ == nullptr || !make_matcher()) return;
  const auto accepted = matcher_->accept(token);
  if (!accepted) {
    error_ = accepted.error();
  } else if (!*accepted) {
    error_ = Error{ErrorCode::kInternal,
                   fmt::format("token {} was drawn, which the grammar does not allow", token), ""};
  }
}

bool SequenceGrammar::complete_without_end() const {
  return !awaits_end_ && matcher_ != nullptr && where_ == Where::kBegun && matcher_->complete();
}

}  // namespace quire
