// Prefix hits of models with recurrent state: at snapshots only, from the step after the one that
// wrote them. That outputs do not depend on load is in scheduler_invariance_test.cpp.
#include <gtest/gtest.h>

#include "engine/scheduler.h"
#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

// A state alone, or one beside two groups of blocks. A snapshot every 8 tokens.
SchedulerOptions recurrent_options(bool with_blocks, std::int32_t num_snapshots) {
  SchedulerOptions options = scheduler_options({});
  if (with_blocks) options = scheduler_options({64, 64});
  options.kv.recurrent_state = true;
  options.kv.num_snapshots = num_snapshots;
  options.kv.snapshot_interval = 8;
  return options;
}

class SchedulerSnapshots : public testing::TestWithParam<bool> {
 protected:
  // Runs one request to its end; returns how many tokens of its prompt were not computed.
  std::int32_t cached(Rig& rig, std::vector<TokenId> prompt, std::int32_t max_tokens = 3) {
    const Request request = make_request(++id_, std::move(prompt), max_tokens);
    rig.scheduler.add(request, 0);
    rig.run();
    expect_same(rig.outputs[id_], expected_output(request, 256), request);
    return rig.outputs[id_].cached_tokens;
  }
  std::uint64_t id_ = 0;
};

TEST_P(SchedulerSnapshots, APrefixIsFoundAgainWhereASnapshotIs) {
  Rig rig(recurrent_options(GetParam(), 10));
  EXPECT_EQ(cached(rig, prompt_of(1, 20)), 0);
  EXPECT_EQ(rig.scheduler.stats().kv.cached_snapshots, 2);  // at 8 and 16
  EXPECT_EQ(cached(rig, prompt_of(1, 20)), 16);
  EXPECT_EQ(cached(rig, prompt_of(1, 17)), 16);
  EXPECT_EQ(cached(rig, prompt_of(1, 16)), 8);  // one token is always computed
  EXPECT_EQ(cached(rig, prompt_of(1, 7)), 0);
  EXPECT_EQ(cached(rig, prompt_of(2, 20)), 0);
  EXPECT_EQ(rig.scheduler.stats().kv.query_tokens, 20 + 20 + 17 + 16 + 7 + 20);
  EXPECT_EQ(rig.scheduler.stats().kv.hit_tokens, 16 + 16 + 8);
  EXPECT_TRUE(rig.scheduler.reset_prefix_cache());
  EXPECT_EQ(cached(rig, prompt_of(1, 20)), 0);
}

TEST_P(SchedulerSnapshots, AnswersLeaveSnapshotsForTheNextTurn) {
  Rig rig(recurrent_options(GetParam(), 10));
  EXPECT_EQ(cached(rig, prompt_of(1, 12), 15), 0);
  std::vector<TokenId> next_turn = prompt_of(1, 12);
  const std::vector<TokenId>& answer = rig.outputs[id_].tokens;
  next_turn.insert(next_turn.end(), answer.begin(), answer.end());
  next_turn.push_back(999);
  EXPECT_EQ(cached(rig, next_turn), 24);
}

TEST_P(SchedulerSnapshots, TheDeepestGoFirst) {
  Rig rig(recurrent_options(GetParam(), 3));
  EXPECT_EQ(cached(rig, prompt_of(1, 50)), 0);  // at 8 and 16; the third was taken over and over
  EXPECT_EQ(cached(rig, prompt_of(1, 20)), 16);
  EXPECT_EQ(cached(rig, prompt_of(200, 10)), 0);
  EXPECT_EQ(cached(rig, prompt_of(200, 10)), 8);
  EXPECT_EQ(cached(rig, prompt_of(1, 20)), 16);
}

TEST_P(SchedulerSnapshots, RowsEndAtSnapshots) {
  SchedulerOptions options = recurrent_options(GetParam(), 10);
  options.max_num_batched_tokens = 13;
  Rig rig(options);
  rig.scheduler.add(make_request(1, prompt_of(1, 20), 2), 0);
  rig.scheduler.add(make_request(2, prompt_of(100, 6), 2), 0);
  StepPlan plan = rig.step();
  ASSERT_EQ(plan.rows.size(), 2u);
  EXPECT_EQ(plan.rows[0].num_tokens, 8);
  EXPECT_EQ(plan.rows[1].num_tokens, 5);
  EXPECT_EQ(plan.state_saves.size(), 1u);
  plan = rig.step();
  EXPECT_EQ(plan.rows[0].num_tokens, 8);
  EXPECT_EQ(plan.rows[1].num_tokens, 1);
  rig.run();
}

TEST_P(SchedulerSnapshots, WithoutMemoryForThemThereAreNoHits) {
  Rig rig(recurrent_options(GetParam(), 0));
  EXPECT_EQ(cached(rig, prompt_of(1, 20)), 0);
  EXPECT_EQ(cached(rig, prompt_of(1, 20)), 0);
}

INSTANTIATE_TEST_SUITE_P(States, SchedulerSnapshots, testing::Bool(), [](const auto& with_blocks) {
  return std::string(with_blocks.param ? "BesideBlocks" : "Alone");
});

}  // namespace
}  // namespace quire
