// The scheduler's rules one by one. That outputs do not depend on load is in
// scheduler_invariance_test.cpp.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

SamplingParams with_prompt_logprobs() {
  SamplingParams params;
  params.prompt_logprobs = 1;
  return params;
}

TEST(Scheduler, NothingToDoIsAnEmptyPlan) {
  Rig rig(scheduler_options({8}));
  EXPECT_FALSE(rig.scheduler.has_work());
  const StepPlan plan = rig.plan();
  EXPECT_TRUE(plan.empty());
  rig.apply(plan, {});
}

TEST(Scheduler, SplitsPromptsByTheBudgetAndSamplesOnlyAtTheEnd) {
  SchedulerOptions options = scheduler_options({32});
  options.max_num_batched_tokens = 8;
  Rig rig(options);
  rig.scheduler.add(make_request(1, prompt_of(1, 10), 2), 0);
  rig.scheduler.add(make_request(2, prompt_of(50, 5), 2), 0);
  const StepPlan first = rig.step();
  ASSERT_EQ(first.rows.size(), 1u);
  EXPECT_EQ(first.rows[0].num_tokens, 8);
  EXPECT_FALSE(first.rows[0].sample);
  EXPECT_EQ(first.rows[0].logits_begin, 8);
  EXPECT_EQ(first.added.size(), 1u);
  const StepPlan second = rig.step();
  ASSERT_EQ(second.rows.size(), 2u);
  EXPECT_EQ(second.rows[0].start_pos, 8);
  EXPECT_EQ(second.rows[0].num_tokens, 2);
  EXPECT_EQ(second.rows[0].logits_begin, 1);
  EXPECT_TRUE(second.rows[0].sample);
  EXPECT_EQ(second.rows[1].num_tokens, 5);
  EXPECT_EQ(second.num_tokens(), 7);
  EXPECT_EQ(second.table_begin[0], (std::vector<std::int32_t>{0, 3, 5}));
  rig.run();
}

TEST(Scheduler, KeepsToMaxNumSeqsAndReusesSlots) {
  SchedulerOptions options = scheduler_options({64});
  options.max_num_seqs = 2;
  Rig rig(options);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    rig.scheduler.add(
        make_request(id, prompt_of(static_cast<TokenId>(id * 10), 4), id == 1 ? 1 : 3), 0);
  }
  EXPECT_EQ(rig.step().rows.size(), 2u);  // request 1 ends here
  EXPECT_EQ(rig.scheduler.stats().waiting, 1);
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.removed.size(), 1u);
  ASSERT_EQ(plan.added.size(), 1u);
  EXPECT_EQ(plan.removed[0], plan.added[0].slot);
  EXPECT_EQ(plan.rows.size(), 2u);
  rig.run();
}

TEST(Scheduler, FinishRules) {
  const auto prompt = prompt_of(1, 6);
  std::vector<TokenId> tokens = prompt;
  for (int i = 0; i < 8; ++i) tokens.push_back(fake_next_token(tokens));
  const auto generated = [&](std::size_t i) { return tokens[prompt.size() + i]; };

  Rig rig(scheduler_options({64}));
  std::vector<Request> requests;
  for (std::uint64_t id = 0; id < 7; ++id) requests.push_back(make_request(id, prompt, 8));
  requests[1].stop.eos_ids = {generated(2)};
  requests[2].stop.eos_ids = {generated(2)};
  requests[2].stop.ignore_eos = true;
  requests[3].stop.stop_token_ids = {5000, generated(3)};
  requests[4].stop.eos_ids =
      requests[4].stop.stop_token_ids = {generated(4)};  // the end token wins
  SamplingParams params;
  params.min_tokens = 4;
  requests[5] = make_request(5, prompt, 8, params);
  requests[5].stop.eos_ids = {generated(1), generated(5)};
  requests[6].stop.ignore_eos = true;
  requests[6].stop.eos_ids = requests[6].stop.stop_token_ids = {generated(0)};
  for (const Request& request : requests) rig.scheduler.add(request, 0);
  rig.run();
  const auto expect = [&](std::uint64_t id, std::size_t n, FinishReason reason,
                          std::optional<TokenId> stop) {
    const Output& output = rig.outputs[id];
    EXPECT_EQ(output.tokens.size(), n) << id;
    EXPECT_EQ(output.finish, reason) << id;
    EXPECT_EQ(output.stop_token, stop) << id;
    expect_same(output, expected_output(requests[id], 256), requests[id]);
  };
  expect(0, 8, FinishReason::kLength, {});
  expect(1, 3, FinishReason::kStop, {});
  expect(2, 8, FinishReason::kLength, {});
  expect(3, 4, FinishReason::kStop, generated(3));
  expect(4, 5, FinishReason::kStop, {});
  expect(5, 6, FinishReason::kStop, {});
  expect(6, 1, FinishReason::kStop, generated(0));
  EXPECT_EQ(rig.scheduler.stats().finished, 7);
}

TEST(Scheduler, EndsWhenItRepeatsItself) {
  for (const std::int32_t min_tokens : {0, 12}) {
    Rig rig(scheduler_options({64}));
    SamplingParams sampling;
    sampling.min_tokens = min_tokens;
    // The prompt repeats itself too: only what is generated counts.
    Request request = make_request(1, {8, 7, 8, 7, 8, 7, 8, 7}, 100, sampling);
    request.stop.repetition = {3, 2, 3};
    rig.scheduler.add(request, 0);
    for (int i = 0; rig.scheduler.has_work() && i < 100; ++i) {
      const StepPlan plan = rig.plan();
      StepResult result = rig.executor.run(plan);
      result.rows[0].token = i < 5 ? 20 + i : 7 + i % 2;
      rig.executor.replace_drawn(plan.rows[0].slot, result.rows[0].token);
      rig.apply(plan, result);
    }
    EXPECT_EQ(rig.outputs[1].tokens.size(), min_tokens == 0 ? 11u : 12u);
    EXPECT_EQ(rig.outputs[1].finish, FinishReason::kRepetition);
  }
}

TEST(Scheduler, EndsAtMaxModelLen) {
  SchedulerOptions options = scheduler_options({64});
  options.max_model_len = 12;
  Rig rig(options);
  rig.scheduler.add(make_request(1, prompt_of(1, 7), 100), 0);
  rig.run();
  EXPECT_EQ(rig.outputs[1].tokens.size(), 5u);
  EXPECT_EQ(rig.outputs[1].finish, FinishReason::kLength);
}

TEST(Scheduler, EndsWithLengthWhenLongerThanTheWholeCache) {
  Rig rig(scheduler_options({3}));  // 12 positions
  EXPECT_TRUE(rig.scheduler.could_fit(12));
  EXPECT_FALSE(rig.scheduler.could_fit(13));
  rig.scheduler.add(make_request(1, prompt_of(1, 12), 100), 0);
  rig.scheduler.add(make_request(2, prompt_of(90, 5), 100), 0);
  rig.run();
  EXPECT_EQ(rig.outputs[1].tokens.size(), 1u);
  EXPECT_EQ(rig.outputs[1].finish, FinishReason::kLength);
  EXPECT_EQ(rig.outputs[2].tokens.size(), 8u);
}

TEST(Scheduler, SecondRequestHitsThePrefix) {
  Rig rig(scheduler_options({32}));
  const Request request = make_request(1, prompt_of(1, 10), 2);
  rig.scheduler.add(request, 0);
  rig.run();
  Request again = make_request(2, prompt_of(1, 10), 2), salted = again;
  salted.id = RequestId(3);
  salted.cache_salt = 77;
  rig.scheduler.add(again, 0);
  rig.scheduler.add(salted, 0);
  const StepPlan plan = rig.step();
  EXPECT_EQ(plan.rows[0].start_pos, 8);
  EXPECT_EQ(plan.rows[1].start_pos, 0);
  rig.run();
  EXPECT_EQ(rig.outputs[1].cached_tokens, 0);
  EXPECT_EQ(rig.outputs[2].cached_tokens, 8);
  EXPECT_EQ(rig.outputs[3].cached_tokens, 0);
  EXPECT_EQ(rig.outputs[2].tokens, rig.outputs[1].tokens);
  EXPECT_EQ(rig.scheduler.stats().kv.hit_tokens, 8);
  EXPECT_TRUE(rig.scheduler.reset_prefix_cache());
}

TEST(Scheduler, RowsOfOneStepShareAPrefix) {
  Rig rig(scheduler_options({32}));
  rig.scheduler.add(make_request(1, prompt_of(1, 10), 3), 0);
  rig.scheduler.add(make_request(2, prompt_of(1, 10), 3), 0);
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.rows.size(), 2u);
  EXPECT_EQ(plan.rows[1].start_pos, 8);
  rig.run();
  EXPECT_EQ(rig.outputs[2].tokens, rig.outputs[1].tokens);
}

TEST(Scheduler, PromptLogprobsComeOnceInOrderThroughChunks) {
  for (const std::int32_t budget : {1, 3, 7, 64}) {
    SchedulerOptions options = scheduler_options({32});
    options.max_num_batched_tokens = budget;
    Rig rig(options);
    rig.scheduler.add(make_request(1, prompt_of(1, 12), 3), 0);
    rig.run();
    const Request request = make_request(2, prompt_of(1, 12), 3, with_prompt_logprobs());
    const Request one_token = make_request(3, prompt_of(8, 1), 3, with_prompt_logprobs());
    rig.scheduler.add(request, 0);
    rig.scheduler.add(one_token, 0);
    rig.run();
    EXPECT_EQ(rig.outputs[2].cached_tokens, 0);  // a hit would leave logits out
    expect_same(rig.outputs[2], expected_output(request, 256), request);
    expect_same(rig.outputs[3], expected_output(one_token, 256), one_token);
  }
}

TEST(Scheduler, ScoringDrawsNothing) {
  for (const std::int32_t budget : {1, 5, 64}) {
    SchedulerOptions options = scheduler_options({32});
    options.max_num_batched_tokens = budget;
    Rig rig(options);
    const Request scoring = make_request(1, prompt_of(1, 9), 0, with_prompt_logprobs());
    const Request plain = make_request(2, prompt_of(30, 9), 0);
    rig.scheduler.add(scoring, 0);
    rig.scheduler.add(plain, 0);
    rig.run();
    expect_same(rig.outputs[1], expected_output(scoring, 256), scoring);
    expect_same(rig.outputs[2], expected_output(plain, 256), plain);
  }
}

TEST(Scheduler, PreemptsTheLastAndTakesItBackFirst) {
  SchedulerOptions options = scheduler_options({8});  // 32 positions
  options.forecast_growth = false;
  Rig rig(options);
  std::vector<Request> requests;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    requests.push_back(make_request(id, prompt_of(static_cast<TokenId>(id * 40), 6), 14));
    rig.scheduler.add(requests.back(), 0);
  }
  for (int i = 0; i < 40 && rig.scheduler.stats().preemptions == 0; ++i) rig.step();
  EXPECT_GT(rig.scheduler.stats().preemptions, 0);
  EXPECT_GT(rig.outputs[1].tokens.size(), 1u);
  EXPECT_FALSE(rig.outputs[1].finish);
  rig.run();
  for (const Request& request : requests) {
    expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
  }
}

TEST(Scheduler, NothingOvertakesAWaitingRequest) {
  Rig rig(scheduler_options({8}));
  rig.scheduler.add(make_request(1, prompt_of(1, 16), 4), 0);
  rig.scheduler.add(make_request(2, prompt_of(50, 20), 4), 0);  // does not fit beside request 1
  rig.scheduler.add(make_request(3, prompt_of(90, 2), 4), 0);   // would
  EXPECT_EQ(rig.step().rows.size(), 1u);
  EXPECT_EQ(rig.scheduler.stats().waiting, 2);
  rig.run();
  EXPECT_EQ(rig.outputs.size(), 3u);
}

TEST(Scheduler, SequencesThatGenerateComeBeforeChunksOfPrompts) {
  SchedulerOptions options = scheduler_options({64});
  options.max_num_batched_tokens = 8;
  Rig rig(options);
  rig.scheduler.add(make_request(1, prompt_of(1, 5), 20), 0);
  rig.scheduler.add(make_request(2, prompt_of(40, 40), 20), 0);
  rig.scheduler.add(make_request(3, prompt_of(90, 1), 20), 0);
  rig.step();  // 5 of the first, 3 of the second
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.rows.size(), 2u);
  EXPECT_EQ(plan.rows[0].num_tokens, 1);
  EXPECT_EQ(plan.rows[1].num_tokens, 7);
  rig.run();
}

TEST(Scheduler, ALongPromptLeavesRoomForOthersUnderTheThreshold) {
  SchedulerOptions options = scheduler_options({64});
  options.max_num_batched_tokens = 16;
  options.long_prefill_token_threshold = 6;
  Rig rig(options);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    rig.scheduler.add(make_request(id, prompt_of(static_cast<TokenId>(id * 40), 20), 4), 0);
  }
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.rows.size(), 3u);
  EXPECT_EQ(plan.rows[0].num_tokens, 6);
  EXPECT_EQ(plan.rows[1].num_tokens, 6);
  EXPECT_EQ(plan.rows[2].num_tokens, 4);
  rig.run();
}

Request with_priority(Request request, std::int64_t priority) {
  request.priority = priority;
  return request;
}

TEST(Scheduler, PriorityDecidesWhoStartsAndWhoIsPreempted) {
  SchedulerOptions options = scheduler_options({8});  // 32 positions
  options.forecast_growth = false;
  options.policy = SchedulingPolicy::kPriority;
  options.max_num_seqs = 2;
  Rig rig(options);
  std::vector<Request> requests;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const auto first = static_cast<TokenId>(id * 40);
    requests.push_back(
        with_priority(make_request(id, prompt_of(first, 6), 14), 4 - static_cast<int>(id)));
    rig.scheduler.add(requests.back(), 0);
  }
  const StepPlan plan = rig.step();
  ASSERT_EQ(plan.token_ids.front(), 160);  // the last one that came is the most urgent
  while (rig.scheduler.has_work()) {
    rig.step();
    for (std::uint64_t id = 2; id <= 4; ++id) {
      if (rig.outputs[id - 1].finish) {
        EXPECT_TRUE(rig.outputs[id].finish) << id;
      }
    }
  }
  for (const Request& request : requests) {
    expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
  }
}

TEST(Scheduler, AnUrgentRequestTakesThePlaceOfALesserOne) {
  SchedulerOptions options = scheduler_options({8});
  options.forecast_growth = false;
  options.policy = SchedulingPolicy::kPriority;
  options.max_num_seqs = 2;
  Rig rig(options);
  std::vector<Request> requests{with_priority(make_request(1, prompt_of(1, 6), 14), 1),
                                with_priority(make_request(2, prompt_of(50, 6), 14), 2),
                                with_priority(make_request(3, prompt_of(90, 8), 5), 0)};
  rig.scheduler.add(requests[0], 0);
  rig.scheduler.add(requests[1], 0);
  for (int i = 0; i < 4; ++i) rig.step();
  rig.scheduler.add(requests[2], 0);
  rig.step();
  EXPECT_EQ(rig.outputs[3].tokens.size(), 1u);  // at once
  EXPECT_EQ(rig.scheduler.stats().preemptions, 1);
  rig.run();
  for (const Request& request : requests) {
    expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
  }
}

TEST(Scheduler, NothingIsPreemptedForAnUrgentRequestThatStillWouldNotFit) {
  SchedulerOptions options = scheduler_options({8});
  options.forecast_growth = false;
  options.policy = SchedulingPolicy::kPriority;
  Rig rig(options);
  rig.scheduler.add(with_priority(make_request(1, prompt_of(1, 12), 5), -1), 0);
  rig.scheduler.add(with_priority(make_request(2, prompt_of(50, 5), 5), 2), 0);
  rig.step();
  rig.scheduler.add(with_priority(make_request(3, prompt_of(90, 30), 2), 1), 0);
  rig.step();
  EXPECT_EQ(rig.scheduler.stats().preemptions, 0);
  EXPECT_EQ(rig.outputs[2].tokens.size(), 2u);
  rig.run();
}

TEST(Scheduler, WithoutPrioritiesTheFieldChangesNothing) {
  SchedulerOptions options = scheduler_options({8});
  options.max_num_seqs = 1;
  Rig rig(options);
  rig.scheduler.add(with_priority(make_request(1, prompt_of(1, 6), 3), 9), 0);
  rig.scheduler.add(with_priority(make_request(2, prompt_of(50, 6), 3), -9), 0);
  rig.step();
  EXPECT_EQ(rig.outputs[1].tokens.size(), 1u);
  rig.run();
}

TEST(Scheduler, DeadlinesEndRequestsWhereverTheyAre) {
  SchedulerOptions options = scheduler_options({16});
  options.max_num_seqs = 1;
  Rig rig(options);
  Request runs = make_request(1, prompt_of(1, 6), 50),
          waits = make_request(2, prompt_of(20, 6), 50),
          queued = make_request(3, prompt_of(40, 6), 50);
  runs.deadline_s = 30;
  runs.queue_deadline_s = 1;  // it has started by then
  waits.deadline_s = 20;
  queued.arrival_s = 2;
  queued.queue_deadline_s = 10;
  for (const Request& request : {runs, waits, queued}) rig.scheduler.add(request, 0);
  rig.step();
  rig.step();
  EXPECT_TRUE(rig.scheduler.expire(9.9).empty());
  const auto first = rig.scheduler.expire(10);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].id, RequestId(3));
  EXPECT_TRUE(first[0].in_queue);
  EXPECT_DOUBLE_EQ(first[0].waited_s, 8);
  const auto rest = rig.scheduler.expire(31);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].id, RequestId(2));
  EXPECT_FALSE(rest[0].in_queue);
  EXPECT_EQ(rest[1].id, RequestId(1));
  EXPECT_EQ(rest[1].num_generated, 2);
  EXPECT_FALSE(rig.scheduler.has_work());
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 0);
}

TEST(Scheduler, TwoHundredRequestsThroughEightBlocks) {
  for (const bool forecast : {false, true}) {
    SchedulerOptions options = scheduler_options({8});
    options.forecast_growth = forecast;
    Rig rig(options);
    std::vector<Request> requests;
    for (std::uint64_t id = 1; id <= 200; ++id) {
      const auto n = static_cast<std::size_t>(1 + id % 13);
      requests.push_back(make_request(id, prompt_of(static_cast<TokenId>(id), n),
                                      static_cast<std::int32_t>(1 + id % 17)));
      rig.scheduler.add(requests.back(), 0);
    }
    rig.run();
    for (const Request& request : requests)
      expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
  }
}

TEST(Scheduler, AbortAtAnyState) {
  SchedulerOptions options = scheduler_options({16});
  options.max_num_seqs = 1;
  Rig rig(options);
  rig.scheduler.add(make_request(1, prompt_of(1, 6), 50), 0);
  rig.scheduler.add(make_request(2, prompt_of(20, 6), 50), 0);
  rig.step();
  EXPECT_TRUE(rig.scheduler.abort(RequestId(2)));  // waits
  EXPECT_TRUE(rig.scheduler.abort(RequestId(1)));  // runs
  EXPECT_FALSE(rig.scheduler.abort(RequestId(1)));
  EXPECT_FALSE(rig.scheduler.has_work());
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 0);
  EXPECT_EQ(rig.scheduler.stats().aborted, 2);
  const StepPlan plan = rig.step();
  EXPECT_TRUE(plan.rows.empty());
  EXPECT_EQ(plan.removed.size(), 1u);
  EXPECT_EQ(rig.executor.num_slots(), 0u);
}

TEST(Scheduler, BlocksOfAPlannedStepAreNotReusedBeforeItIsApplied) {
  Rig rig(scheduler_options({4}));
  rig.scheduler.add(make_request(1, prompt_of(1, 14), 50), 0);
  const StepPlan plan = rig.plan();
  EXPECT_TRUE(rig.scheduler.finish(RequestId(1)));
  rig.expect_intact();
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 4);
  rig.scheduler.add(make_request(2, prompt_of(60, 14), 2), 0);
  EXPECT_TRUE(rig.plan().rows.empty());  // must wait, although nothing runs
  rig.apply(plan, rig.executor.run(plan));
  EXPECT_TRUE(rig.outputs.empty());  // the surplus token is dropped
  EXPECT_EQ(rig.scheduler.stats().kv.used_blocks, 0);
}

TEST(Scheduler, PlansAheadOfResults) {
  SchedulerOptions options = scheduler_options({8});
  options.max_num_batched_tokens = 5;
  Rig rig(options);
  std::vector<Request> requests;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    requests.push_back(make_request(id, prompt_of(static_cast<TokenId>(id * 40), 9), 12));
    rig.scheduler.add(requests.back(), 0);
  }
  StepPlan ahead = rig.plan();
  for (int steps = 0; rig.scheduler.has_work() && steps < 1000; ++steps) {
    StepResult result = rig.executor.run(ahead);
    StepPlan next = rig.plan();
    rig.apply(ahead, result);
    ahead = std::move(next);
  }
  rig.apply(ahead, rig.executor.run(ahead));
  for (const Request& request : requests) {
    expect_same(rig.outputs[request.id.value], expected_output(request, 256), request);
  }
}

}  // namespace
}  // namespace quire
