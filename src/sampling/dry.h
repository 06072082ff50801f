// DRY ("don't repeat yourself"), as llama.cpp has it: a token that would continue a repeat of what
// stands at the end of the sequence loses multiplier * base^(length of the repeat - allowed
// length).
#pragma once

#include <span>

#include "base/ids.h"
#include "sampling/sampling_params.h"

namespace quire {

// logits: [vocab], in place. window: the sequence's last tokens (at most dry_penalty_last_n),
// prompt included. A repeat never reaches back over a breaker, and a breaker of one token costs
// nothing. Linear in the window. Uses scratch space of the thread.
void apply_dry(std::span<float> logits, const SamplingParams& params,
               std::span<const TokenId> window);

}  // namespace quire
