// Turns rows of logits into tokens. Keeps, per executor slot, what sampling needs of a sequence's
// past: counts for penalties and the tail for bad words. Owned by the executor; calls for different
// slots may run on different threads, calls for one slot may not.
//
// Order (vLLM's): raw log-softmax for logprobs; allowed tokens; bad words; min tokens; logit bias;
// penalties; then greedy argmax (lowest id on a tie), or temperature, min-p, top-k, top-p and a
// draw by inverse CDF over the kept tokens in ascending id. The draw is keyed by (seed, choice,
// position of the generated token in the whole sequence), by a counter-based generator: no state,
// so preemption changes nothing. NaN counts as minus infinity; when nothing is left to choose from,
// the lowest id that the rules allow is given.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace quire {

struct TokenLogprobs {
  TokenId token = -1;
  float logprob = 0;      // of `token`, from the raw logits; may be minus infinity
  std::int32_t rank = 0;  // 1: the most likely
  std::vector<std::pair<TokenId, float>> top;  // best first, ties to the lowest id
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
  bool wants_logprobs(SlotId slot) const;

  // Log-probabilities of one row: of `token` and of the top `top_count`. Used for prompt logprobs
  // as well.
  static TokenLogprobs logprobs_of(std::span<const float> logits, TokenId token,
                                   std::int32_t top_count);

 private:
  struct Slot;
  std::int64_t vocab_size_;
  std::vector<std::unique_ptr<Slot>> slots_;  // by slot id
};

}  // namespace quire
