// Several choices for one prompt: computed once, forked with copy-on-write, whatever becomes of the
// first. That outputs do not depend on load is in scheduler_invariance_test.cpp.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/scheduler.h"
#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

struct Family {
  std::vector<Request> requests;
  std::int32_t prompt_tokens = 0;
};

Family family_of(std::uint64_t id, std::int32_t prompt_tokens, std::uint32_t choices,
                 std::int32_t max_tokens, const SamplingParams& params = {}) {
  std::vector<TokenId> prompt(static_cast<std::size_t>(prompt_tokens));
  std::iota(prompt.begin(), prompt.end(), static_cast<TokenId>(id * 1000));
  const Request first = make_request(id, std::move(prompt), max_tokens, params);
  Family family;
  family.prompt_tokens = prompt_tokens;
  for (std::uint32_t i = 0; i < choices; ++i) family.requests.push_back(make_choice(first, i));
  return family;
}

void add(Rig& rig, const Family& family) {
  for (const Request& request : family.requests) rig.scheduler.add(request, 0);
}

void expect_all(Rig& rig, const Family& family, std::size_t first = 0) {
  for (std::size_t i = first; i < family.requests.size(); ++i) {
    const Request& request = family.requests[i];
    SCOPED_TRACE(request.id.value);
    expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
  }
}

// Runs until nothing is left to do; returns how many tokens were computed below the prompt's end.
std::int32_t prompt_tokens_computed(Rig& rig, const Family& family) {
  std::int32_t computed = 0;
  while (rig.scheduler.has_work()) {
    const StepPlan plan = rig.step();
    for (const StepPlan::Row& row : plan.rows) {
      computed += std::max(0, std::min(row.num_tokens, family.prompt_tokens - row.start_pos));
    }
  }
  rig.run();
  return computed;
}

TEST(SchedulerFork, ThePromptIsComputedOnceAndEveryChoiceGetsItsOwnTokens) {
  for (const std::int32_t blocks : {0, 64}) {  // 0: states only
    for (const std::int32_t prompt : {1, 3, 4, 10, 12}) {
      SchedulerOptions options = scheduler_options({});
      if (blocks > 0) options = scheduler_options({blocks, blocks});
      options.kv.enable_prefix_caching = false;
      options.max_num_batched_tokens = 7;
      Rig rig(options);
      const Family family = family_of(1, prompt, 5, 9);
      add(rig, family);
      EXPECT_EQ(prompt_tokens_computed(rig, family), prompt);
      expect_all(rig, family);
      EXPECT_NE(rig.outputs[1].tokens, rig.outputs[2].tokens);
    }
  }
}

TEST(SchedulerFork, FirstTokensComeTogetherAndOnlyTheLastBlockIsCopied) {
  Rig rig(scheduler_options({64}));
  const Family family = family_of(1, 10, 4, 3);
  add(rig, family);
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.rows.size(), 1u);
  EXPECT_EQ(plan.num_tokens(), 10);
  EXPECT_EQ(plan.forks.size(), 3u);
  EXPECT_EQ(plan.added.size(), 4u);
  ASSERT_EQ(plan.fork_copies.size(), 3u);
  for (const StepPlan::Copy& copy : plan.fork_copies) EXPECT_EQ(copy.tokens, 2);
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 3 + 3);
  for (const Request& request : family.requests)
    EXPECT_EQ(rig.outputs[request.id.value].tokens.size(), 1u);
  rig.run();
  expect_all(rig, family);
}

TEST(SchedulerFork, AFirstChoiceThatEndsWithItsFirstTokenLeavesThePromptToTheOthers) {
  SchedulerOptions options = scheduler_options({64});
  options.kv.enable_prefix_caching = false;
  Rig rig(options);
  Family family = family_of(1, 10, 4, 6);
  family.requests[0].stop.max_tokens = 1;
  add(rig, family);
  EXPECT_EQ(prompt_tokens_computed(rig, family), 10);
  expect_all(rig, family);
}

TEST(SchedulerFork, AFirstChoiceThatIsAbortedMidwayIsFollowedByTheNext) {
  SchedulerOptions options = scheduler_options({64});
  options.max_num_batched_tokens = 4;
  Rig rig(options);
  const Family family = family_of(1, 10, 3, 6);
  add(rig, family);
  rig.step();
  EXPECT_TRUE(rig.scheduler.abort(family.requests[0].id));
  EXPECT_EQ(prompt_tokens_computed(rig, family), 6);  // the first block was in the prefix cache
  expect_all(rig, family, 1);
}

TEST(SchedulerFork, AbortedBetweenPlanAndApplyTheOthersKeepThePromptsLogprobs) {
  SamplingParams params;
  params.prompt_logprobs = 1;
  params.logprobs = 1;
  Rig rig(scheduler_options({64}));
  const Family family = family_of(1, 10, 3, 6, params);
  add(rig, family);
  const StepPlan plan = rig.plan();
  ASSERT_EQ(plan.forks.size(), 2u);
  EXPECT_TRUE(rig.scheduler.abort(family.requests[0].id));
  EXPECT_TRUE(rig.scheduler.abort(family.requests[1].id));
  rig.apply(plan, rig.executor.run(plan));
  EXPECT_FALSE(rig.outputs.contains(1) || rig.outputs.contains(2));
  rig.run();
  expect_all(rig, family, 2);
}

TEST(SchedulerFork, MoreChoicesThanPlacesComeInWaves) {
  SchedulerOptions options = scheduler_options({64});
  options.max_num_seqs = 4;
  options.kv.enable_prefix_caching = false;
  Rig rig(options);
  const Family family = family_of(1, 10, 10, 5);
  add(rig, family);
  EXPECT_LE(prompt_tokens_computed(rig, family), 30);  // 4, 4 and 2 of them
  expect_all(rig, family);
}

TEST(SchedulerFork, OthersBehindDoNotWaitForTheFamilyNorTakeItsPlaces) {
  SchedulerOptions options = scheduler_options({64});
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 8;
  Rig rig(options);
  const Family family = family_of(1, 10, 3, 5), late = family_of(5, 5, 1, 5),
               later = family_of(6, 5, 1, 5);
  add(rig, family);
  add(rig, late);
  add(rig, later);
  rig.step();  // 8 tokens of the family's prompt
  const StepPlan plan = rig.step();
  EXPECT_EQ(plan.rows.size(), 2u);  // its end, and the late one
  EXPECT_EQ(plan.forks.size(), 2u);
  EXPECT_EQ(rig.scheduler.stats().waiting, 1);
  rig.run();
  expect_all(rig, family);
  expect_all(rig, late);
  expect_all(rig, later);
}

TEST(SchedulerFork, EightBlocksAreEnoughForManyChoices) {
  for (const bool prefix_caching : {true, false}) {
    SchedulerOptions options = scheduler_options({8});
    options.kv.enable_prefix_caching = prefix_caching;
    Rig rig(options);
    const Family family = family_of(1, 10, 12, 18), other = family_of(40, 6, 8, 20);
    add(rig, family);
    add(rig, other);
    rig.run();
    expect_all(rig, family);
    expect_all(rig, other);
    EXPECT_GT(rig.scheduler.stats().preemptions, 0);
  }
}

}  // namespace
}  // namespace quire
