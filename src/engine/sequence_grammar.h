// A grammar along one sequence: which tokens may come next. Owned by its Sequence; between the
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
  // Of a request that has a grammar.
  explicit SequenceGrammar(const Request& request);

  // Makes the mask of the next token.
  void fill();
  // What fill made; of no effect before the grammar has begun (Request::grammar_start) and after a
  // failure.
  TokenMask mask() const;
  // The sequence goes on with this token.
  void accept(TokenId token);

  // An end token was drawn where the grammar lets the text end.
  bool ended() const { return begun_ && matcher_ != nullptr && matcher_->ended(); }
  // Nothing may follow, and no end token is awaited: the text is whole.
  bool complete_without_end() const;
  // Why the grammar can't be followed any longer.
  const std::optional<Error>& error() const { return error_; }

 private:
  bool make_matcher();

  std::shared_ptr<const Grammar> grammar_;
  std::vector<TokenId> stop_token_ids_;
  std::vector<TokenId> start_;  // the tokens after which the grammar begins
  std::size_t num_start_seen_ = 0;
  bool begun_ = true;
  bool awaits_end_ = true;
  std::unique_ptr<GrammarMatcher> matcher_;
  std::vector<std::uint32_t> words_;
  TokenId only_ = -1;
  std::optional<Error> error_;
};

}  // namespace quire
