// What steps cost, measured, and how large a chunk of prompts may be so that a step takes no longer
// than wanted. The Scheduler gets StepCosts as an argument and measures nothing itself.
#pragma once

#include <cstdint>

namespace quire {

// Seconds: a step takes fixed + generating sequences * per_sequence + prompt tokens *
// per_prompt_token. All 0: nothing is known yet.
struct StepCosts {
  double fixed_s = 0, per_sequence_s = 0, per_prompt_token_s = 0;

  double step_s(std::int32_t generating, std::int32_t prompt_tokens) const {
    return fixed_s + generating * per_sequence_s + prompt_tokens * per_prompt_token_s;
  }
};

// Prompt tokens that fit in a step of max_step_s beside sequences that generate; at least
// kSmallestChunk, so that prompts always advance, and kFirstChunk while nothing is known.
inline constexpr std::int32_t kSmallestChunk = 16, kFirstChunk = 64;
std::int32_t prompt_tokens_within(const StepCosts& costs, double max_step_s,
                                  std::int32_t generating);

// Learns StepCosts from steps. Recent ones count most: prompts get dearer as they get longer, and a
// machine is shared with others. Engine thread.
class StepCostMeter {
 public:
  void observe(std::int32_t generating, std::int32_t prompt_tokens, double step_s);
  const StepCosts& costs() const { return costs_; }

 private:
  void fit_line();

  StepCosts costs_;
  // Of steps without prompts: weighted sums for a line through (generating, step_s).
  double weight_ = 0, sum_n_ = 0, sum_t_ = 0, sum_nn_ = 0, sum_nt_ = 0;
};

}  // namespace quire
