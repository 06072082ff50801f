#include "engine/step_costs.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

constexpr double kMostSurprise = 2;        // a step's share of what was expected, at most
constexpr double kDriftShare = 0.2;        // weight of the newest step with a prompt
constexpr double kKnownWeight = 3;         // from so many steps on there is an expectation
constexpr double kSequencesShare = 0.1;    // of a step, while only one number of them was seen
constexpr std::int32_t kBareEvery = 64;    // steps with prompts, before one without is wanted
constexpr double kLeastPromptShare = 0.1;  // of a step with prompts, taken for theirs at least

}  // namespace

StepWork work_of(const StepPlan& plan) {
  StepWork work;
  for (const StepPlan::Row& row : plan.rows) {
    if (row.num_tokens == 1 && row.sample) {
      ++work.generating;
    } else {
      work.prompt_tokens += row.num_tokens;
      work.prompt_keys += row.num_tokens * (row.start_pos + 0.5 * (row.num_tokens + 1));
    }
  }
  return work;
}

std::int32_t prompt_tokens_within(const StepCosts& costs, double left_s, std::int32_t start) {
  if (costs.per_prompt_token_s <= 0 && costs.per_prompt_key_s <= 0) return kFirstChunk;
  // prompt_s(start, n) = left_s: half_key * n^2 + linear * n - left_s = 0
  const double half_key = 0.5 * costs.per_prompt_key_s;
  const double linear = costs.per_prompt_token_s + costs.per_prompt_key_s * (start + 0.5);
  const double left = std::max(left_s, 0.0);
  const double tokens = 2 * left / (linear + std::sqrt(linear * linear + 4 * half_key * left));
  return static_cast<std::int32_t>(std::min(tokens * (1 + 1e-9), 1e9));
}

void RecentLine::add(double x, double y) {
  weight_ = weight_ * forget_ + 1;
  sum_x_ = sum_x_ * forget_ + x;
  sum_y_ = sum_y_ * forget_ + y;
  sum_xx_ = sum_xx_ * forget_ + x * x;
  sum_xy_ = sum_xy_ * forget_ + x * y;
}

double RecentLine::slope(double flat_share) const {
  const double x = mean_x(), y = mean_y();
  if (x <= 0) return 0;
  const double variance = sum_xx_ / weight_ - x * x;
  double slope = flat_share * y / x;
  if (variance > 0.01 * x * x) slope = (sum_xy_ / weight_ - x * y) / variance;
  return std::clamp(slope, 0.0, y / x);
}

void StepCostMeter::observe(const StepWork& work, double step_s) {
  if (work.prompt_tokens > 0) return observe_prompts(work, step_s);
  if (work.generating > 0) observe_bare(work.generating, step_s);
}

void StepCostMeter::observe_bare(std::int32_t generating, double step_s) {
  if (bare_.weight() >= kKnownWeight)
    step_s = std::min(step_s, kMostSurprise * costs_.bare_step_s(generating));
  bare_.add(generating, step_s);
  costs_.per_sequence_s = bare_.slope(kSequencesShare);
  costs_.fixed_s = bare_.at_zero(costs_.per_sequence_s);
  costs_.measured_generating = generating;
  since_bare_ = 0;
}

void StepCostMeter::observe_prompts(const StepWork& work, double step_s) {
  // Large chunks, which nobody is held up by, are computed at other speeds than small ones.
  if (work.generating == 0 && !prompt_.empty()) return;
  if (work.generating > 0 && ++since_bare_ >= kBareEvery) costs_.measured_generating = 0;
  const double rest_s = step_s - (work.generating > 0 ? costs_.bare_step_s(work.generating) : 0);
  double token_s = std::max(rest_s, kLeastPromptShare * step_s) / work.prompt_tokens;
  const double keys = work.prompt_keys / work.prompt_tokens;
  if (work.generating == 0) {  // a first guess
    costs_.per_prompt_token_s = token_s;
    return;
  }
  if (prompt_.weight() >= kKnownWeight) {
    const double slope = prompt_.slope(0);
    const double line_s = prompt_.at_zero(slope) + slope * keys;
    if (const double expected_s = drift_ * line_s; expected_s > 0) {
      token_s = std::clamp(token_s, expected_s / kMostSurprise, expected_s * kMostSurprise);
      drift_ += kDriftShare * (token_s / line_s - drift_);
    }
  }
  prompt_.add(keys, token_s);
  const double slope = prompt_.slope(0);
  costs_.per_prompt_key_s = drift_ * slope;
  costs_.per_prompt_token_s = drift_ * prompt_.at_zero(slope);
}

}  // namespace quire
