// Requests with one prefix that arrive together compute it once, in one step.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/scheduler.h"
#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

std::vector<TokenId> shared_and_own(std::size_t shared, TokenId own, std::size_t num_own) {
  std::vector<TokenId> tokens(shared);
  std::iota(tokens.begin(), tokens.end(), 1);
  for (std::size_t i = 0; i < num_own; ++i) tokens.push_back(own + static_cast<TokenId>(i));
  return tokens;
}

TEST(SchedulerSharing, ThirtyTwoRequestsComputeTheirPrefixOnceInOneStep) {
  SchedulerOptions options = scheduler_options({256, 256});
  options.kv.groups[1].window = 24;
  Rig rig(options);
  std::vector<Request> requests;
  for (TokenId i = 0; i < 32; ++i) {
    requests.push_back(
        make_request(static_cast<std::uint64_t>(i), shared_and_own(100, 1000 + 10 * i, 5), 4));
    rig.scheduler.add(requests.back(), 0);
  }
  const StepPlan plan = rig.step();
  EXPECT_EQ(plan.rows.size(), 32u);
  EXPECT_EQ(plan.num_tokens(), 100 + 32 * 5);
  EXPECT_EQ(rig.scheduler.stats().kv.query_tokens, 32 * 105);
  EXPECT_EQ(rig.scheduler.stats().kv.hit_tokens, 31 * 100);
  rig.run();
  for (const Request& request : requests) {
    SCOPED_TRACE(request.id.value);
    expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
    EXPECT_EQ(rig.outputs[request.id.value].cached_tokens, request.id.value == 0 ? 0 : 100);
  }
}

TEST(SchedulerSharing, TheOthersWaitNotWhenThePrefixTakesSeveralSteps) {
  SchedulerOptions options = scheduler_options({256});
  options.max_num_batched_tokens = 40;
  Rig rig(options);
  for (TokenId i = 0; i < 8; ++i) {
    rig.scheduler.add(
        make_request(static_cast<std::uint64_t>(i), shared_and_own(100, 1000 + 10 * i, 4), 2), 0);
  }
  std::int32_t computed = 0;
  while (rig.scheduler.has_work()) computed += rig.step().num_tokens();
  rig.run();
  EXPECT_EQ(computed, 100 + 8 * 4 + 8);  // and one more token each for the second of the answer
}

TEST(SchedulerSharing, APartOfABlockIsCopied) {
  SchedulerOptions options = scheduler_options({64, 64}, 8);
  options.kv.groups[1].window = 11;
  options.kv.prefix_match_unit = 2;
  Rig rig(options);
  std::vector<Request> requests{make_request(1, shared_and_own(21, 500, 9), 2),
                                make_request(2, shared_and_own(21, 600, 9), 2),
                                make_request(3, shared_and_own(3, 700, 9), 2)};
  for (const Request& request : requests) {
    rig.scheduler.add(request, 0);
    const StepPlan plan = rig.step();
    EXPECT_EQ(plan.copies.size(), request.id.value == 1 ? 0u : 2u);
    rig.run();
    expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
  }
  EXPECT_EQ(rig.outputs[2].cached_tokens, 20);  // two blocks, and 4 tokens of the 5 shared
  EXPECT_EQ(rig.outputs[3].cached_tokens, 2);
  EXPECT_EQ(rig.scheduler.stats().kv.hit_tokens, 22);
}

// What a step computes is there after it: nothing is copied from its blocks, whole ones are shared.
TEST(SchedulerSharing, NothingIsCopiedFromBlocksOfTheSameStep) {
  SchedulerOptions options = scheduler_options({64}, 8);
  options.kv.prefix_match_unit = 1;
  Rig rig(options);
  std::vector<Request> requests;
  for (TokenId i = 0; i < 4; ++i) {
    requests.push_back(
        make_request(static_cast<std::uint64_t>(i), shared_and_own(21, 500 + 100 * i, 9), 2));
    rig.scheduler.add(requests.back(), 0);
  }
  EXPECT_TRUE(rig.step().copies.empty());
  rig.run();
  for (const Request& request : requests) {
    expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
    EXPECT_EQ(rig.outputs[request.id.value].cached_tokens, request.id.value == 0 ? 0 : 16);
  }
}

TEST(SchedulerSharing, ResetForgetsThePrefix) {
  Rig rig(scheduler_options({64}));
  for (std::uint64_t id = 1; id <= 3; ++id) {
    rig.scheduler.add(make_request(id, shared_and_own(20, 500, 3), 2), 0);
    if (id == 3) {
      EXPECT_TRUE(rig.scheduler.reset_prefix_cache());
    }
    rig.run();
  }
  EXPECT_EQ(rig.outputs[2].cached_tokens, 20);
  EXPECT_EQ(rig.outputs[3].cached_tokens, 0);
}

}  // namespace
}  // namespace quire
