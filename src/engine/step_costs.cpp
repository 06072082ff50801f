#include "engine/step_costs.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

constexpr double kMostSurprise = 0.2;      // more than so much above or below counts as so much
constexpr double kBareGain = 0.5;          // of a step without prompts: they may be rare
constexpr double kPromptGain = 0.25;       // of one with prompts
constexpr double kEarlyPoints = 3;         // until then points are taken as they are
constexpr std::int32_t kBareEvery = 64;    // steps with prompts, before one without is wanted
constexpr double kLeastPromptShare = 0.1;  // of a step with prompts, taken for theirs at least

}  // namespace

StepWork work_of(const StepPlan& plan) {
  StepWork work;
  for (const StepPlan::Row& row : plan.rows) {
    if (row.num_tokens == 1 && row.sample) {
      ++work.generating;
    } else {
      ++work.chunks;
      work.prompt_tokens += row.num_tokens;
      work.prompt_keys += row.num_tokens * (row.start_pos + 0.5 * (row.num_tokens + 1));
    }
  }
  return work;
}

std::int32_t prompt_tokens_within(const StepCosts& costs, double left_s, std::int32_t start) {
  if (costs.per_prompt_token_s <= 0 && costs.per_prompt_key_s <= 0) return kFirstChunk;
  // prompt_s(start, n) = left_s, with t = n + kChunkTokens: half_key * t^2 + linear * t - left_s =
  // 0
  const double half_key = 0.5 * costs.per_prompt_key_s;
  const double linear =
      costs.per_prompt_token_s + costs.per_prompt_key_s * (start + 0.5 * (1 - kChunkTokens));
  const double left = std::max(left_s, 0.0);
  if (left == 0) return 0;  // else 0 / 0 where a token without keys costs nothing
  const double tokens = 2 * left / (linear + std::sqrt(linear * linear + 4 * half_key * left));
  return static_cast<std::int32_t>(std::clamp(tokens * (1 + 1e-9) - kChunkTokens, 0.0, 1e9));
}

void CostLine::add(double size, double cost, double surprise, double gain) {
  if (weight_ >= kEarlyPoints) {
    const double limit = kMostSurprise;
    factor_ *= 1 + gain * std::clamp(surprise, -limit, limit);
    cost = std::clamp(cost, at(size) / 2, at(size) * 2);
  }
  weight_ = weight_ * forget_ + 1;
  sum_x_ = sum_x_ * forget_ + size;
  sum_y_ = sum_y_ * forget_ + cost;
  sum_xx_ = sum_xx_ * forget_ + size * size;
  sum_xy_ = sum_xy_ * forget_ + size * cost;
  // Least squares; neither the slope nor the value at 0 is negative.
  const double x = sum_x_ / weight_, y = sum_y_ / weight_;
  const double variance = sum_xx_ / weight_ - x * x;
  double slope = flat_share_ * y / x;
  if (variance > 0.01 * x * x) slope = (sum_xy_ / weight_ - x * y) / variance;
  // The line moves; what is expected of this size now is told by the factor alone.
  const double before = at(size);
  slope_ = std::clamp(slope, 0.0, y / x);
  at_zero_ = y - slope_ * x;
  const double line = at_zero_ + slope_ * size;
  factor_ = weight_ > kEarlyPoints && line > 0 ? before / line : 1;
}

void StepCostMeter::observe(const StepWork& work, double step_s) {
  if (work.prompt_tokens > 0) return observe_prompts(work, step_s);
  if (work.generating > 0) observe_bare(work.generating, step_s);
}

void StepCostMeter::observe_bare(std::int32_t generating, double step_s) {
  const double expected_s = bare_.at(generating);
  bare_.add(generating, step_s, expected_s > 0 ? step_s / expected_s - 1 : 0, kBareGain);
  costs_.per_sequence_s = bare_.per_size();
  costs_.fixed_s = bare_.at_zero();
  costs_.measured_generating = generating;
  since_bare_ = 0;
}

void StepCostMeter::observe_prompts(const StepWork& work, double step_s) {
  if (work.generating == 0) {
    // Large chunks, which nobody is held up by, are computed at other speeds than small ones: a
    // first guess only.
    if (prompt_.empty())
      costs_.per_prompt_token_s = step_s / (work.prompt_tokens + kChunkTokens * work.chunks);
    return;
  }
  if (++since_bare_ >= kBareEvery) costs_.measured_generating = 0;
  const double keys = work.prompt_keys / work.prompt_tokens;
  const double rest_s = step_s - costs_.bare_step_s(work.generating);
  const double tokens = work.prompt_tokens + kChunkTokens * work.chunks;
  const double token_s = std::max(rest_s, kLeastPromptShare * step_s) / tokens;
  const double expected_s = prompt_.at(keys) * tokens;
  prompt_.add(keys, token_s, expected_s > 0 ? rest_s / expected_s - 1 : 0, kPromptGain);
  costs_.per_prompt_key_s = prompt_.per_size();
  costs_.per_prompt_token_s = prompt_.at_zero();
}

}  // namespace quire
