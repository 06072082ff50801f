// A grammar along one sequence, after its thinking and that one's budget: which tokens may come
// next. Owned by its Sequence; between the
// start and the end of a step's masks the mask thread fills it, else the engine thread uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/request.h"
#include "sampling/token_mask.h"
#include "text/grammar.h"

namespace quire {

class SequenceGrammar {
 public:
  // True for a request that has a grammar or a budget of thinking.
  static bool needed(const Request& request);
  explicit SequenceGrammar(const Request& request);

  // Makes the mask of the next token.
  void fill();
  // What fill made; of no effect before the grammar has begun (Request::grammar_start) and after a
  // failure.
  TokenMask mask() const;
  // The sequence goes on with this token.
  void accept(TokenId token);

  // An end token was drawn where the grammar lets the text end.
  bool ended() const { return matcher_ != nullptr && matcher_->ended(); }
  // Nothing may follow, and no end token is awaited: the text is whole.
  bool complete_without_end() const;
  // Why the grammar can't be followed any longer.
  const std::optional<Error>& error() const { return error_; }

 private:
  enum class Where {
    kFirst,     // the next token may go on with what begins the thinking, or the grammar holds
    kThinking,  // anything goes, or what ThinkingRules::text says
    kEnding,    // the budget is used up: the tokens that end the thinking
    kBegun      // the grammar holds
  };
  GrammarMatcher* answer_matcher();
  GrammarMatcher* thinking_matcher();
  void fill_from(GrammarMatcher* matcher);
  void fill_first();
  void allow_only(TokenId token);
  void allow_too(TokenId token);
  void accept_first(TokenId token);
  void begin_thinking();
  void accept_thinking(TokenId token);
  bool follow(GrammarMatcher* matcher, TokenId token);

  std::shared_ptr<const Grammar> grammar_;  // null: a budget alone
  std::vector<TokenId> stop_token_ids_;
  std::vector<TokenId> start_;  // the tokens after which the grammar begins
  std::size_t num_start_seen_ = 0, num_begin_seen_ = 0;
  bool may_answer_ = true;  // what has been seen of the beginning fits the grammar too
  ThinkingRules thinking_;
  std::int32_t num_thought_ = 0;
  Where where_ = Where::kBegun;
  bool awaits_end_ = true;
  std::unique_ptr<GrammarMatcher> matcher_, thinker_;  // of grammar_, and of thinking_.text
  std::vector<std::uint32_t> words_;
  TokenId only_ = -1;
  std::optional<Error> error_;
};

}  // namespace quire
