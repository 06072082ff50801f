// Turns rows of logits into tokens. Keeps, per executor slot, what sampling needs of a sequence's
// past. Owned by the executor; calls for different slots may run on different threads, calls for
// one slot may not.
//
// Order (vLLM's, with llama.cpp's samplers at their places): raw log-softmax for logprobs; grammar
// mask; allowed tokens; bad words; min tokens; logit bias; penalties; DRY; then greedy argmax
// (lowest id on a tie), or temperature, min-p, top-k, typical-p, top-p, XTC and a draw by inverse
// CDF over the kept tokens in ascending id. The draw is keyed by (seed, choice, position of the
// generated token in the whole sequence), by a counter-based generator: no state, so preemption
// changes nothing. NaN counts as minus infinity; when nothing is left to choose from, the lowest id
// that the rules allow is given; a grammar's mask holds in any case. A token allocates nothing once
// a thread's scratch space has grown, but for the list of log-probabilities that it hands out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace quire {

struct TokenLogprobs {
  TokenId token = -1;
  float logprob = 0;      // of `token`; may be minus infinity
  std::int32_t rank = 0;  // 1: the most likely
  // Best first, ties to the lowest id; or the ids that were asked for, in their order.
  std::vector<std::pair<TokenId, float>> top;
};

// What log-probabilities of a row are wanted beside the chosen token's.
struct LogprobsQuery {
  std::int32_t top_count = 0;
  std::span<const TokenId> ids = {};  // not empty: these in place of the top ones
  bool as_logits = false;             // the row's own numbers, not their log-softmax
};

class Sampler {
 public:
  explicit Sampler(std::int64_t vocab_size);
  ~Sampler();
  // prompt: for repetition penalty; generated: tokens drawn before (empty for a new request).
  void add_slot(SlotId slot, const SamplingParams& params, std::span<const TokenId> prompt,
                std::span<const TokenId> generated = {});
  void remove_slot(SlotId slot);

  // Draws the next token of the slot and remembers it. logits: [vocab], overwritten. mask:
  // allowed-token bit set of a grammar, or empty. Fills *logprobs when the slot asked for them.
  TokenId sample(SlotId slot, std::span<float> logits, std::span<const std::uint32_t> mask,
                 TokenLogprobs* logprobs);
  // The next token is known without a draw: remembers it.
  void take(SlotId slot, TokenId token);
  bool wants_logprobs(SlotId slot) const;

  // Log-probabilities of one row: of `token` and what the query names. Used for prompt logprobs as
  // well. *out is overwritten.
  static void find_logprobs(std::span<const float> logits, TokenId token,
                            const LogprobsQuery& query, TokenLogprobs* out);
  static TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token,
                                   std::int32_t top_count) {
    TokenLogprobs out;
    find_logprobs(logits, token, {top_count}, &out);
    return out;
  }

 private:
  struct Slot;
  Slot& slot_at(SlotId slot);
  std::int64_t vocab_size_;
  std::vector<std::unique_ptr<Slot>> slots_;  // by slot id
};

}  // namespace quire
