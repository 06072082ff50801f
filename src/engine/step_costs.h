// What steps cost, measured, and how large a chunk of a prompt may be so that a step takes no
// longer than wanted. The Scheduler gets StepCosts as an argument and measures nothing itself.
#pragma once

#include <cstdint>

#include "executor/step_plan.h"

namespace quire {

// What a step computes, as far as its time depends on it.
struct StepWork {
  std::int32_t generating = 0;     // rows of one token that draw the next one
  std::int32_t prompt_tokens = 0;  // tokens of all other rows
  double prompt_keys = 0;          // keys that these attend to, added up over the tokens
  std::int32_t chunks = 0;         // rows that these lie in
};
StepWork work_of(const StepPlan& plan);

// What a chunk costs whatever its size, in tokens: keys and values are read for all of them at
// once. (SmolLM2-135M on Zen 4, behind 2700 tokens: 1 token 3.0 ms, 4 8.2, 8 14.3, 16 25 ms.)
inline constexpr double kChunkTokens = 1;

// Seconds: a step takes fixed + generating sequences * per_sequence, and for each chunk of a prompt
// (tokens + kChunkTokens) * (per_prompt_token + keys of its middle token * per_prompt_key). All 0:
// nothing is known yet.
struct StepCosts {
  double fixed_s = 0, per_sequence_s = 0, per_prompt_token_s = 0, per_prompt_key_s = 0;
  // How many sequences generated in the last step without prompts; 0: there was none for long. Of
  // a very different number nobody knows what such a step takes.
  std::int32_t measured_generating = 0;

  double bare_step_s(std::int32_t generating) const {  // without prompts
    return fixed_s + generating * per_sequence_s;
  }
  bool knows(std::int32_t generating) const {
    return generating <= 2 * measured_generating && measured_generating <= 2 * generating;
  }
  // What num_tokens of a prompt add to a step, that come after `start` others.
  double prompt_s(std::int32_t start, std::int32_t num_tokens) const {
    if (num_tokens <= 0) return 0;
    return (num_tokens + kChunkTokens) *
           (per_prompt_token_s + per_prompt_key_s * (start + 0.5 * (num_tokens + 1)));
  }
};

// The most tokens of a prompt, after `start` others, that add no more than left_s; kFirstChunk
// while nothing is known.
inline constexpr std::int32_t kFirstChunk = 16;
std::int32_t prompt_tokens_within(const StepCosts& costs, double left_s, std::int32_t start);

// What something costs by its size: a line through many points says how the cost grows, and a
// factor, in which the newest points count most, how dear it is now. A point far from what was
// expected moves the factor no more than a near one: it was somebody else's work.
class CostLine {
 public:
  // forget: weight of a point of the line against the one after it. flat_share: while the size
  // hardly varies no slope can be told, and this share of the cost is taken to grow with it.
  CostLine(double forget, double flat_share) : forget_(forget), flat_share_(flat_share) {}
  bool empty() const { return weight_ == 0; }
  double per_size() const { return factor_ * slope_; }
  double at_zero() const { return factor_ * at_zero_; }
  double at(double size) const { return factor_ * (at_zero_ + slope_ * size); }
  // surprise: by which share the cost was above what is expected. gain: how much of it is believed.
  void add(double size, double cost, double surprise, double gain);

 private:
  double forget_, flat_share_;
  double weight_ = 0, sum_x_ = 0, sum_y_ = 0, sum_xx_ = 0, sum_xy_ = 0;
  double slope_ = 0, at_zero_ = 0, factor_ = 1;
};

// Learns StepCosts from steps. Engine thread.
class StepCostMeter {
 public:
  void observe(const StepWork& work, double step_s);
  const StepCosts& costs() const { return costs_; }

 private:
  void observe_bare(std::int32_t generating, double step_s);
  void observe_prompts(const StepWork& work, double step_s);

  StepCosts costs_;
  CostLine bare_{0.98, 0.1};     // steps without prompts: sequences, seconds
  CostLine prompt_{0.99, 0.0};   // steps with both: keys per prompt token, seconds per token,
                                 // kChunkTokens of each chunk counted too
  std::int32_t since_bare_ = 0;  // steps with both since the last one without prompts
};

}  // namespace quire
