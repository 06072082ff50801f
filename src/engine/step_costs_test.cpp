#include "engine/step_costs.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

TEST(StepCosts, LearnsWhatStepsCost) {
  const StepCosts real{0.004, 0.0005, 0.0002};
  StepCostMeter meter;
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    const auto generating = static_cast<std::int32_t>(random() % 64);
    const std::int32_t prompt = i % 3 == 0 ? static_cast<std::int32_t>(16 + random() % 500) : 0;
    const double noise = 1 + 0.05 * (static_cast<double>(random() % 1000) / 500 - 1);
    meter.observe(generating, prompt, real.step_s(generating, prompt) * noise);
  }
  for (const std::int32_t generating : {1, 8, 32, 64}) {
    EXPECT_NEAR(meter.costs().step_s(generating, 0) / real.step_s(generating, 0), 1, 0.15);
  }
  EXPECT_NEAR(meter.costs().per_prompt_token_s / real.per_prompt_token_s, 1, 0.2);
}

TEST(StepCosts, FollowsAMachineThatSlowsDown) {
  StepCostMeter meter;
  for (const double factor : {1.0, 3.0}) {
    for (int i = 0; i < 200; ++i) {
      meter.observe(8, 0, 0.010 * factor);
      meter.observe(8, 100, 0.030 * factor);
    }
    EXPECT_NEAR(meter.costs().step_s(8, 0), 0.010 * factor, 0.001 * factor);
    EXPECT_NEAR(meter.costs().step_s(8, 100), 0.030 * factor, 0.003 * factor);
  }
}

TEST(StepCosts, AnEmptyStepTellsNothing) {
  StepCostMeter meter;
  meter.observe(0, 0, 5);
  EXPECT_EQ(meter.costs().step_s(1, 1), 0);
}

TEST(StepCosts, ChunksAreSizedByTheTimeLeft) {
  const StepCosts costs{0.002, 0.0001, 0.0005};
  EXPECT_EQ(prompt_tokens_within(costs, 0.050, 80), 80);  // 50 ms - 10 ms
  EXPECT_EQ(prompt_tokens_within(costs, 0.010, 80), kSmallestChunk);
  EXPECT_EQ(prompt_tokens_within(costs, 0.001, 80), kSmallestChunk);
  EXPECT_EQ(prompt_tokens_within({}, 0.001, 80), kFirstChunk);
}

}  // namespace
}  // namespace quire
