#include "engine/step_costs.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

constexpr double kForget = 0.95;       // weight of a step against the one after it
constexpr double kPromptShare = 0.25;  // weight of the newest step with a prompt

}  // namespace

std::int32_t prompt_tokens_within(const StepCosts& costs, double max_step_s,
                                  std::int32_t generating) {
  if (costs.per_prompt_token_s <= 0) return kFirstChunk;
  const double left_s = max_step_s - costs.step_s(generating, 0);
  const double tokens = std::clamp(left_s / costs.per_prompt_token_s, 0.0, 1e9);
  return std::max(kSmallestChunk, static_cast<std::int32_t>(tokens));
}

void StepCostMeter::observe(std::int32_t generating, std::int32_t prompt_tokens, double step_s) {
  if (prompt_tokens == 0) {
    if (generating == 0) return;
    const double n = generating;
    weight_ = weight_ * kForget + 1;
    sum_n_ = sum_n_ * kForget + n;
    sum_t_ = sum_t_ * kForget + step_s;
    sum_nn_ = sum_nn_ * kForget + n * n;
    sum_nt_ = sum_nt_ * kForget + n * step_s;
    fit_line();
    return;
  }
  const double rest_s = step_s - costs_.step_s(generating, 0);
  const double per_token_s = std::max(rest_s, 0.1 * step_s) / prompt_tokens;
  double& known = costs_.per_prompt_token_s;
  known = known > 0 ? known + kPromptShare * (per_token_s - known) : per_token_s;
}

// Least squares. While the number of sequences hardly varies, no slope can be told: then half of
// the mean is taken for fixed.
void StepCostMeter::fit_line() {
  const double mean_n = sum_n_ / weight_, mean_t = sum_t_ / weight_;
  const double variance = sum_nn_ / weight_ - mean_n * mean_n;
  double slope = 0.5 * mean_t / mean_n;
  if (variance > 0.01 * mean_n * mean_n) {
    slope = (sum_nt_ / weight_ - mean_n * mean_t) / variance;
  }
  costs_.per_sequence_s = std::clamp(slope, 0.0, mean_t / mean_n);
  costs_.fixed_s = mean_t - costs_.per_sequence_s * mean_n;
}

}  // namespace quire
