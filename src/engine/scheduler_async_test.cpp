// Planning ahead of results: what goes on unseen, what waits, and what a surplus token may touch.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

SchedulerOptions async_options(std::int32_t num_blocks = 64) {
  SchedulerOptions options = scheduler_options({num_blocks});
  options.async_scheduling = true;
  options.forecast_growth = false;
  return options;
}

TEST(SchedulerAsync, TheNextRowIsPlannedBeforeItsTokenIsKnown) {
  Rig rig(async_options());
  const Request request = make_request(1, prompt_of(1, 5), 3);
  rig.scheduler.add(request, 0);
  const StepPlan first = rig.plan();
  ASSERT_TRUE(rig.scheduler.can_plan_ahead());
  const StepPlan second = rig.plan();
  ASSERT_EQ(second.rows.size(), 1u);
  EXPECT_EQ(second.rows[0].start_pos, 5);
  EXPECT_TRUE(second.rows[0].sample);
  EXPECT_EQ(second.token_ids, std::vector<TokenId>{kTokenFromPreviousStep});
  EXPECT_FALSE(rig.scheduler.can_plan_ahead()) << "two steps are planned already";
  rig.apply(first, rig.executor.run(first));
  rig.apply(second, rig.executor.run(second));
  rig.run();
  expect_same(rig.outputs[1], expected_output(request, 256), request);
}

TEST(SchedulerAsync, NoStepIsPlannedAfterTheLastTokenThatMayCome) {
  Rig rig(async_options());
  rig.scheduler.add(make_request(1, prompt_of(1, 5), 4), 0);
  int rows = 0;
  while (rig.scheduler.has_work()) rows += static_cast<int>(rig.step().rows.size());
  EXPECT_EQ(rows, 4);
  EXPECT_EQ(rig.executor.num_unseen(), 3);
  rig.run();
}

TEST(SchedulerAsync, ASurplusTokenIsDroppedAndItsBlocksStayUntilItsStepIsApplied) {
  SchedulerOptions options = async_options();
  options.kv.enable_prefix_caching = false;
  Rig rig(options);
  Request request = make_request(1, prompt_of(1, 4), 9);
  request.stop.eos_ids = {fake_next_token(*request.prompt)};
  rig.scheduler.add(request, 0);
  const StepPlan first = rig.plan(), surplus = rig.plan();
  ASSERT_EQ(surplus.rows.size(), 1u);
  rig.apply(first, rig.executor.run(first));
  EXPECT_EQ(rig.outputs[1].finish, FinishReason::kStop);
  EXPECT_FALSE(rig.scheduler.has_work());
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 2) << "the surplus token is still written there";
  // Who comes now gets other blocks.
  rig.scheduler.add(make_request(2, prompt_of(50, 9), 2), 0);
  const StepPlan next = rig.plan();
  ASSERT_EQ(next.rows.size(), 1u);
  for (const std::int32_t block : next.block_table[0]) {
    EXPECT_EQ(std::ranges::count(surplus.block_table[0], block), 0);
  }
  EXPECT_EQ(next.removed.size(), 1u);
  rig.apply(surplus, rig.executor.run(surplus));
  EXPECT_EQ(rig.outputs[1].tokens.size(), 1u);
  rig.apply(next, rig.executor.run(next));
  rig.run();
}

TEST(SchedulerAsync, BlocksOfAnAbortedSequenceWaitForTheLastStepThatNamesThem) {
  Rig rig(async_options());
  rig.scheduler.add(make_request(1, prompt_of(1, 8), 9), 0);
  const StepPlan first = rig.plan(), second = rig.plan();
  EXPECT_TRUE(rig.scheduler.abort(RequestId(1)));
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 3);
  rig.apply(first, rig.executor.run(first));
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 3);
  rig.apply(second, rig.executor.run(second));
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 0);
  EXPECT_TRUE(rig.outputs[1].tokens.empty());
}

TEST(SchedulerAsync, WithoutBlocksForAllTheNextPlanWaits) {
  Rig rig(async_options(5));  // of 4 tokens
  rig.scheduler.add(make_request(1, prompt_of(1, 7), 9), 0);
  rig.scheduler.add(make_request(2, prompt_of(101, 7), 9), 0);
  StepPlan plan = rig.plan();
  ASSERT_EQ(plan.rows.size(), 2u);
  EXPECT_TRUE(rig.scheduler.can_plan_ahead()) << "there is room for one token each";
  rig.apply(plan, rig.executor.run(plan));
  plan = rig.plan();
  EXPECT_FALSE(rig.scheduler.can_plan_ahead()) << "one of them must give its blocks away";
  rig.apply(plan, rig.executor.run(plan));
  rig.run();
  EXPECT_GT(rig.scheduler.stats().preemptions, 0);
}

TEST(SchedulerAsync, SomebodyMoreUrgentIsNotKeptWaiting) {
  SchedulerOptions options = async_options();
  options.policy = SchedulingPolicy::kPriority;
  options.max_num_seqs = 1;
  Rig rig(options);
  Request request = make_request(1, prompt_of(1, 4), 9);
  request.priority = 5;
  rig.scheduler.add(request, 0);
  const StepPlan plan = rig.plan();
  EXPECT_TRUE(rig.scheduler.can_plan_ahead());
  request = make_request(2, prompt_of(9, 4), 9);
  request.priority = 1;
  rig.scheduler.add(request, 0);
  EXPECT_FALSE(rig.scheduler.can_plan_ahead());
  rig.apply(plan, rig.executor.run(plan));
  rig.step();
  EXPECT_EQ(rig.scheduler.stats().preemptions, 1);
  EXPECT_EQ(rig.outputs[2].tokens.size(), 1u);
  rig.run();
}

// A block that is filled by tokens which were drawn ahead is found by those who come later.
TEST(SchedulerAsync, WhatWasComputedUnseenIsInThePrefixCache) {
  for (const bool async : {false, true}) {
    SchedulerOptions options = async_options();
    options.async_scheduling = async;
    Rig rig(options);
    const Request first = make_request(1, prompt_of(1, 6), 11);  // 16 tokens are computed
    rig.scheduler.add(first, 0);
    rig.run();
    std::vector<TokenId> longer = *first.prompt;
    const auto& tokens = rig.outputs[1].tokens;
    longer.insert(longer.end(), tokens.begin(), tokens.end());
    rig.scheduler.add(make_request(2, longer, 1), 0);
    rig.run();
    EXPECT_EQ(rig.outputs[2].cached_tokens, 16) << async;
  }
}

}  // namespace
}  // namespace quire
