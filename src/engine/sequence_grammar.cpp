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
  if (thinking_.begin.empty()) {
    begin_thinking();
  } else if (thinking_.budget != 0 || thinking_.text == nullptr) {
    where_ = Where::kFirst;
  }  // else the beginning, whose last bytes are the text's, would never be whole
}

void SequenceGrammar::begin_thinking() {
  where_ = thinking_.budget == 0 ? Where::kEnding : Where::kThinking;
}

// At the first mask, or for the first token of a choice that goes on from another one's prompt.
GrammarMatcher* SequenceGrammar::answer_matcher() {
  if (matcher_ != nullptr) return matcher_.get();
  auto matcher = grammar_->matcher(stop_token_ids_, awaits_end_);
  if (!matcher) {
    error_ = matcher.error();
    return nullptr;
  }
  matcher_ = std::move(*matcher);
  return matcher_.get();
}

GrammarMatcher* SequenceGrammar::thinking_matcher() {
  if (thinker_ != nullptr) return thinker_.get();
  auto matcher = thinking_.text->matcher({}, false);
  if (!matcher) {
    error_ = matcher.error();
    return nullptr;
  }
  thinker_ = std::move(*matcher);
  return thinker_.get();
}

void SequenceGrammar::fill() {
  if (error_) return;
  switch (where_) {
    case Where::kThinking:
      if (thinking_.text != nullptr) fill_from(thinking_matcher());
      return;
    case Where::kEnding:
      return allow_only(start_[num_start_seen_]);
    case Where::kFirst:
      return fill_first();
    case Where::kBegun:
      if (grammar_ != nullptr) fill_from(answer_matcher());
  }
}

void SequenceGrammar::fill_first() {
  if (grammar_ == nullptr) return;
  const TokenId next = thinking_.begin[num_begin_seen_];
  if (!may_answer_) return allow_only(next);
  fill_from(answer_matcher());
  if (!error_) allow_too(next);
}

void SequenceGrammar::fill_from(GrammarMatcher* matcher) {
  if (matcher == nullptr) return;
  words_.resize(matcher->num_mask_words());
  const auto allowed = matcher->fill_mask(words_);
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
  if (error_) return {};
  if (where_ == Where::kThinking && thinker_ == nullptr) return {};
  if ((where_ == Where::kFirst || where_ == Where::kBegun) && matcher_ == nullptr) return {};
  return {words_, only_};
}

void SequenceGrammar::accept(TokenId token) {
  if (error_) return;
  switch (where_) {
    case Where::kFirst:
      return accept_first(token);
    case Where::kThinking:
      return accept_thinking(token);
    case Where::kEnding:
      if (++num_start_seen_ == start_.size()) where_ = Where::kBegun;
      return;
    case Where::kBegun:
      if (grammar_ != nullptr) follow(answer_matcher(), token);
  }
}

// The answer may begin as the thinking does: both are followed until they part.
void SequenceGrammar::accept_first(TokenId token) {
  if (token != thinking_.begin[num_begin_seen_]) {
    where_ = Where::kBegun;
    if (grammar_ != nullptr) follow(answer_matcher(), token);
    return;
  }
  if (++num_begin_seen_ == thinking_.begin.size()) {
    matcher_ = nullptr;  // the answer comes later
    return begin_thinking();
  }
  if (grammar_ == nullptr || !may_answer_) return;
  GrammarMatcher* matcher = answer_matcher();
  if (matcher == nullptr) return;
  const auto accepted = matcher->accept(token);
  if (!accepted) {
    error_ = accepted.error();
  } else {
    may_answer_ = *accepted;
  }
}

void SequenceGrammar::accept_thinking(TokenId token) {
  if (thinking_.text != nullptr) {
    if (!follow(thinking_matcher(), token)) return;
    if (thinker_->complete()) {
      where_ = Where::kBegun;
      return;
    }
  } else {
    // The end is found where it stands whole; a token that does not go on with it may begin it.
    num_start_seen_ =
        token == start_[num_start_seen_] ? num_start_seen_ + 1 : (token == start_.front() ? 1 : 0);
    if (num_start_seen_ == start_.size()) {
      where_ = Where::kBegun;
      return;
    }
  }
  if (++num_thought_ == thinking_.budget) where_ = Where::kEnding;
}

bool SequenceGrammar::follow(GrammarMatcher* matcher, TokenId token) {
  if (matcher == nullptr) return false;
  const auto accepted = matcher->accept(token);
  if (!accepted) {
    error_ = accepted.error();
  } else if (!*accepted) {
    error_ = Error{ErrorCode::kInternal,
                   fmt::format("token {} was drawn, which the grammar does not allow", token), ""};
  }
  return !error_;
}

bool SequenceGrammar::complete_without_end() const {
  return !awaits_end_ && matcher_ != nullptr && where_ == Where::kBegun && matcher_->complete();
}

}  // namespace quire
