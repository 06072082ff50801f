#include "engine/step_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quire {
namespace {

StepWork work(std::int32_t generating, std::int32_t prompt_tokens, std::int32_t start) {
  return {generating, prompt_tokens, prompt_tokens * (start + 0.5 * (prompt_tokens + 1)),
          prompt_tokens > 0};
}

double step_s(const StepCosts& costs, std::int32_t generating, std::int32_t prompt_tokens,
              std::int32_t start) {
  return costs.bare_step_s(generating) + costs.prompt_s(start, prompt_tokens);
}

TEST(StepCosts, LearnsWhatStepsCost) {
  const StepCosts real{0.004, 0.0005, 0.0002, 1e-7, 0};
  StepCostMeter meter;
  std::mt19937 random(1);
  for (int i = 0; i < 600; ++i) {
    const auto generating = static_cast<std::int32_t>(random() % 64);
    const std::int32_t prompt = i % 3 == 0 ? static_cast<std::int32_t>(16 + random() % 500) : 0;
    const auto start = static_cast<std::int32_t>(random() % 4000);
    const double noise = 1 + 0.05 * (static_cast<double>(random() % 1000) / 500 - 1);
    meter.observe(work(generating, prompt, start), step_s(real, generating, prompt, start) * noise);
  }
  for (const std::int32_t generating : {1, 8, 32, 64}) {
    EXPECT_NEAR(meter.costs().bare_step_s(generating) / real.bare_step_s(generating), 1, 0.15);
  }
  for (const std::int32_t start : {0, 1000, 4000}) {
    EXPECT_NEAR(meter.costs().prompt_s(start, 100) / real.prompt_s(start, 100), 1, 0.2) << start;
  }
}

TEST(StepCosts, FollowsAMachineThatSlowsDown) {
  StepCostMeter meter;
  for (const double factor : {1.0, 3.0, 1.0}) {
    for (int i = 0; i < 200; ++i) {
      meter.observe(work(8, 0, 0), 0.010 * factor);
      meter.observe(work(8, 100, 1000), 0.030 * factor);
    }
    EXPECT_NEAR(step_s(meter.costs(), 8, 0, 0), 0.010 * factor, 0.001 * factor);
    EXPECT_NEAR(step_s(meter.costs(), 8, 100, 1000), 0.030 * factor, 0.003 * factor);
  }
}

// A prompt that gets dearer as it gets longer: what the next chunk will take is known.
TEST(StepCosts, FollowsAPromptThroughItsContext) {
  const StepCosts real{0.010, 0.0005, 0.0008, 4e-7, 0};
  StepCostMeter meter;
  for (int i = 0; i < 10; ++i) meter.observe(work(8, 0, 0), real.bare_step_s(8));
  for (std::int32_t start = 0; start < 4096; start += 8) {
    if (start >= 64) {
      EXPECT_NEAR(meter.costs().prompt_s(start, 8) / real.prompt_s(start, 8), 1, 0.05) << start;
    }
    meter.observe(work(8, 8, start), step_s(real, 8, 8, start));
  }
  // And the next prompt begins at 0, or behind a prefix.
  for (const std::int32_t start : {0, 2000}) {
    EXPECT_NEAR(meter.costs().prompt_s(start, 8) / real.prompt_s(start, 8), 1, 0.1) << start;
  }
}

// Others use the machine in every third step: what is learned is what the other steps take.
TEST(StepCosts, SlowStepsNowAndThenHardlyCount) {
  const StepCosts real{0.005, 0.0007, 0.0006, 3e-7, 0};
  StepCostMeter meter;
  for (std::int32_t i = 0; i < 600; ++i) {
    const double slow = i % 3 == 2 ? 1.8 : i % 50 == 49 ? 10 : 1;
    const std::int32_t tokens = i % 8 == 0 ? 0 : 4;
    meter.observe(work(8, tokens, 4 * i), step_s(real, 8, tokens, 4 * i) * slow);
  }
  EXPECT_NEAR(meter.costs().bare_step_s(8) / real.bare_step_s(8), 1.1, 0.15);
  EXPECT_NEAR(meter.costs().prompt_s(2400, 4) / real.prompt_s(2400, 4), 1.1, 0.25);
}

// Measured: one token of a prompt costs more than half of three. Where a chunk of one was taken for
// a third of that, one token was all that a prompt got from then on.
TEST(StepCosts, ASmallChunkDoesNotKeepTheNextOnesSmall) {
  const double chunk_s = 0.0015, token_s = 0.0015, left_s = 0.0066;
  StepCostMeter meter;
  for (int i = 0; i < 10; ++i) meter.observe(work(8, 0, 0), 0.008);
  std::int32_t tokens = 1;
  for (int i = 0; i < 30; ++i) {
    meter.observe(work(8, tokens, 2700), 0.008 + chunk_s + tokens * token_s);
    tokens = std::max(1, prompt_tokens_within(meter.costs(), left_s, 2700));
  }
  EXPECT_EQ(tokens, 3);
}

// Chunks of several prompts in a step.
TEST(StepCosts, EachChunkCosts) {
  StepPlan plan;
  plan.rows.push_back({SlotId{0}, 100, 1, 0, true, false});
  plan.rows.push_back({SlotId{1}, 10, 4, 4, false, false});
  plan.rows.push_back({SlotId{2}, 0, 2, 2, false, false});
  const StepWork found = work_of(plan);
  EXPECT_EQ(found.generating, 1);
  EXPECT_EQ(found.prompt_tokens, 6);
  EXPECT_EQ(found.chunks, 2);
  EXPECT_DOUBLE_EQ(found.prompt_keys, 11 + 12 + 13 + 14 + 1 + 2);
}

TEST(StepCosts, AnEmptyStepTellsNothing) {
  StepCostMeter meter;
  meter.observe({}, 5);
  EXPECT_EQ(step_s(meter.costs(), 1, 1, 0), 0);
}

// What a step takes without prompts is asked again now and then, and for another number of rows.
TEST(StepCosts, KnowsWhatWasMeasuredLately) {
  StepCostMeter meter;
  EXPECT_FALSE(meter.costs().knows(1));
  meter.observe(work(8, 0, 0), 0.010);
  for (const std::int32_t generating : {4, 8, 16}) EXPECT_TRUE(meter.costs().knows(generating));
  for (const std::int32_t generating : {1, 3, 17}) EXPECT_FALSE(meter.costs().knows(generating));
  int known = 0;
  for (; meter.costs().knows(8); ++known) meter.observe(work(8, 10, 0), 0.015);
  EXPECT_EQ(known, 64);
  meter.observe(work(8, 0, 0), 0.010);
  EXPECT_TRUE(meter.costs().knows(8));
}

TEST(StepCosts, ChunksAreSizedByTheTimeLeft) {
  const StepCosts costs{0.002, 0.0001, 0.0005, 0, 80};
  EXPECT_EQ(prompt_tokens_within(costs, 0.0405, 0), 80);  // the chunk itself costs a token
  EXPECT_EQ(prompt_tokens_within(costs, 0.0009, 0), 0);
  EXPECT_EQ(prompt_tokens_within(costs, -1, 0), 0);
  EXPECT_EQ(prompt_tokens_within({0.002, 1e-4, 0, 1e-6, 80}, -1, 0), 0);  // only keys cost
  EXPECT_EQ(prompt_tokens_within({}, 0.001, 0), kFirstChunk);
  const StepCosts with_keys{0.002, 0.0001, 0.0005, 1e-6, 80};
  for (const std::int32_t start : {0, 100, 5000}) {
    const std::int32_t tokens = prompt_tokens_within(with_keys, 0.030, start);
    EXPECT_LE(with_keys.prompt_s(start, tokens), 0.030 * (1 + 1e-6));
    EXPECT_GT(with_keys.prompt_s(start, tokens + 1), 0.030);
  }
}

}  // namespace
}  // namespace quire
