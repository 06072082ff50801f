// What sampling must know of a sequence's past, as far as its parameters look at it: counts for
// penalties, the tail for bad words, the window for DRY. Owned by a sampler's slot. Memory grows by
// doubling with what is new in the sequence; a token that is known allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace quire {

// Places of tokens in a list, by open addressing.
class TokenPlaces {
 public:
  // The token's place; `next` when it is new, which then is its place.
  std::int32_t find_or_add(TokenId token, std::int32_t next);

 private:
  struct Entry {
    TokenId token;
    std::int32_t place;
  };
  std::size_t probe(TokenId token) const;
  void grow();
  std::vector<Entry> entries_;  // a power of two of them; token -1: free
  std::size_t used_ = 0;
};

class TokenHistory {
 public:
  TokenHistory(const SamplingParams& params, std::span<const TokenId> prompt,
               std::span<const TokenId> generated);
  void append(TokenId token);
  // Whether apply_penalties changes anything.
  bool penalizes() const { return counts_; }

  // Repetition (divide a positive logit, multiply a negative one; prompt and generated), then
  // frequency (per occurrence) and presence (once), both over generated tokens.
  void apply_penalties(std::span<float> logits, const SamplingParams& params) const;
  // The last tokens of the sequence, prompt included: as many as the longest bad word needs.
  std::span<const TokenId> tail() const { return last(tail_limit_); }
  // As many as dry_penalty_last_n says; empty without DRY.
  std::span<const TokenId> dry_window() const { return last(dry_limit_); }
  std::int64_t num_tokens() const { return num_tokens_; }  // prompt and generated
  std::int32_t num_generated() const { return num_generated_; }

 private:
  struct Seen {
    TokenId token;
    std::int32_t generated_count;  // 0: in the prompt only
  };
  void note(TokenId token, bool generated);
  std::span<const TokenId> last(std::size_t count) const {
    const std::span<const TokenId> all(recent_);
    return all.last(std::min(count, all.size()));
  }

  bool counts_ = false;         // any penalty is on
  bool counts_prompt_ = false;  // the repetition penalty is on
  std::size_t tail_limit_ = 0, dry_limit_ = 0;
  std::int64_t num_tokens_ = 0;
  std::int32_t num_generated_ = 0;
  std::vector<Seen> seen_;
  TokenPlaces places_;  // of tokens in seen_
  // The greater of both limits, and up to as many again before the oldest half goes.
  std::vector<TokenId> recent_;
};

}  // namespace quire
