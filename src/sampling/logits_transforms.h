// What changes a row of logits before the draw: masks, bias, penalties. Each works in place on
// [vocab] f32; a banned token becomes minus infinity. Pure but for TokenHistory, which a sampler's
// slot owns.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace quire {

// Bans ids whose bit (id % 32 of word id / 32) is not set. Ids beyond the mask are banned.
void apply_bit_mask(std::span<float> logits, std::span<const std::uint32_t> mask);

// Bans all but `allowed` (ascending, no id twice). No effect when empty.
void apply_allowed(std::span<float> logits, std::span<const TokenId> allowed);

// Bans `ids`.
void apply_banned(std::span<float> logits, std::span<const TokenId> ids);

// Bans the last token of each bad word whose other tokens are the end of `tail`; of one token:
// always.
void apply_bad_words(std::span<float> logits, std::span<const std::vector<TokenId>> bad_words,
                     std::span<const TokenId> tail);

// Adds each bias, clamped to [-100, 100].
void apply_bias(std::span<float> logits, std::span<const std::pair<TokenId, float>> bias);

// Which tokens a sequence holds, as far as its parameters look at them.
class TokenHistory {
 public:
  TokenHistory(const SamplingParams& params, std::span<const TokenId> prompt,
               std::span<const TokenId> generated);
  void append(TokenId token);

  // Repetition (divide a positive logit, multiply a negative one; prompt and generated), then
  // frequency (per occurrence) and presence (once), both over generated tokens.
  void apply_penalties(std::span<float> logits, const SamplingParams& params) const;
  // The last tokens of the sequence, prompt included: as many as the longest bad word needs.
  std::span<const TokenId> tail() const { return tail_; }
  std::int64_t num_tokens() const { return num_tokens_; }  // prompt and generated
  std::int32_t num_generated() const { return num_generated_; }

 private:
  struct Seen {
    TokenId token;
    std::int32_t generated_count;  // 0: in the prompt only
  };
  void note(TokenId token, bool generated);

  bool counts_ = false;         // any penalty is on
  bool counts_prompt_ = false;  // the repetition penalty is on
  std::size_t tail_limit_ = 0;
  std::int64_t num_tokens_ = 0;
  std::int32_t num_generated_ = 0;
  std::vector<Seen> seen_;
  std::unordered_map<TokenId, std::size_t> seen_index_;  // token -> place in seen_
  std::vector<TokenId> tail_;
};

}  // namespace quire
