// Properties of whole loads, on the simulation: nobody starves, preemption is rare, blocks are
// used, chunks keep to the time of a step, clients and priorities get what they are promised.
#include "engine/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/sanitized.h"

namespace quire {
namespace {

SimOptions machine(std::int32_t num_blocks, std::int32_t block_size = 32) {
  SimOptions options;
  options.scheduler.max_num_seqs = 256;
  options.scheduler.max_num_batched_tokens = 512;
  options.scheduler.max_model_len = 4096;
  options.scheduler.kv.block_size = block_size;
  options.scheduler.kv.groups.push_back({num_blocks, 0, false});
  options.costs = {0.004, 0.0006, 0.0005, 6e-8};
  return options;
}

TEST(Simulation, EveryRequestIsAnsweredInFull) {
  SimWorkload load;
  load.num_requests = 300;
  const std::vector<SimRequest> trace = make_workload(load);
  std::int64_t output_tokens = 0;
  for (const SimRequest& request : trace) output_tokens += request.output_tokens;
  const SimReport report = simulate(machine(1000), trace);
  EXPECT_EQ(report.requests, 300);
  EXPECT_EQ(report.output_tokens, output_tokens);
  EXPECT_EQ(report.request_s.size(), 300u);
  EXPECT_EQ(report.first_token_s.size(), 300u);
  EXPECT_EQ(report.inter_token_s.size(), static_cast<std::size_t>(output_tokens) - 300);
  EXPECT_GT(report.duration_s, trace.back().arrival_s);
}

TEST(Simulation, TheSameTraceGivesTheSameReport) {
  SimWorkload load;
  load.num_requests = 200;
  load.seed = 4;
  const SimReport a = simulate(machine(200), make_workload(load));
  const SimReport b = simulate(machine(200), make_workload(load));
  EXPECT_EQ(a.duration_s, b.duration_s);
  EXPECT_EQ(a.first_token_s, b.first_token_s);
}

// Small machines and random loads. In each step the most urgent of the sequences that generate
// draws a token, or, when none generates, the most urgent of all computes what it knows: so no load
// takes more than twice as many steps as it has tokens, whoever is preempted for whom.
TEST(Simulation, NobodyStarvesInTenThousandRandomLoads) {
  std::mt19937 random(1);
  const auto upto = [&](std::int32_t n) {
    return 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(n));
  };
  std::int64_t preemptions = 0;
  for (int load = 0; load < repeats(10000); ++load) {
    SimOptions options;
    SchedulerOptions& scheduler = options.scheduler;
    scheduler.kv.block_size = upto(4);
    scheduler.kv.groups.push_back({3 + upto(8), 0, false});
    if (upto(4) == 1) scheduler.kv.groups.push_back({3 + upto(8), upto(8), false});
    scheduler.kv.enable_prefix_caching = upto(2) == 1;
    scheduler.max_num_batched_tokens = upto(20);
    scheduler.max_num_seqs = upto(6);
    scheduler.max_model_len = 64;
    scheduler.long_prefill_token_threshold = upto(2) == 1 ? upto(6) : 0;
    scheduler.forecast_growth = upto(3) == 1;
    scheduler.policy = upto(2) == 1 ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
    options.costs.fixed_s = 1;
    const Scheduler fits(scheduler);
    std::vector<SimRequest> trace(static_cast<std::size_t>(2 + upto(5)));
    std::int64_t tokens = 0;
    double now_s = 0;
    for (SimRequest& request : trace) {
      request.arrival_s = now_s;
      now_s += upto(4) - 1;
      request.prompt_tokens = upto(12);
      while (!fits.could_fit(request.prompt_tokens + 1)) --request.prompt_tokens;
      request.output_tokens = upto(16);
      request.priority = upto(3);
      request.client = static_cast<std::uint64_t>(upto(2));
      tokens += request.prompt_tokens + request.output_tokens;
    }
    // An arrival that is more urgent may throw back those that run, once each.
    const auto arrivals = static_cast<std::int64_t>(trace.size());
    const SimReport report = simulate(options, trace);
    ASSERT_EQ(report.request_s.size(), trace.size()) << "load " << load;
    ASSERT_LE(report.steps, 2 * tokens * arrivals) << "load " << load;
    if (scheduler.policy == SchedulingPolicy::kFcfs) {
      ASSERT_LE(report.steps, 2 * tokens) << "load " << load;
    }
    preemptions += report.preemptions;
  }
  EXPECT_GT(preemptions, repeats(1000));  // else nothing was tested
}

// Whatever the load, what a sequence holds beyond its tokens is less than a block of each group.
TEST(Simulation, WasteIsUnderOneBlockPerSequenceAndGroup) {
  std::mt19937 random(3);
  const auto upto = [&](std::int32_t n) {
    return 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(n));
  };
  for (int load = 0; load < repeats(100); ++load) {
    SimOptions options = machine(40 + upto(400), 1 << (2 + upto(4)));
    SchedulerOptions& scheduler = options.scheduler;
    const std::int32_t block_size = scheduler.kv.block_size;
    if (upto(3) == 1) {
      scheduler.kv.groups.push_back({scheduler.kv.groups[0].num_blocks, 10 * upto(20), false});
    }
    scheduler.kv.enable_prefix_caching = upto(2) == 1;
    scheduler.kv.prefix_match_unit = upto(block_size);
    scheduler.max_num_batched_tokens = upto(512);
    scheduler.max_model_len =
        std::min(4096, scheduler.kv.groups[0].num_blocks * block_size - block_size);
    SimWorkload work;
    work.num_requests = 20 + upto(60);
    work.max_prompt_tokens = work.max_output_tokens = scheduler.max_model_len / 3;
    work.num_prefixes = upto(3);
    work.prefix_tokens = upto(scheduler.max_model_len / 4);
    work.requests_per_s = upto(20);
    work.seed = static_cast<std::uint64_t>(load);
    std::int64_t most = 0;
    const SimReport report = simulate(options, make_workload(work), [&](const SimStep& step) {
      const auto holders = step.running * static_cast<std::int64_t>(scheduler.kv.groups.size());
      ASSERT_LE(step.empty_positions, holders * (block_size - 1)) << "load " << load;
      most = std::max(most, step.empty_positions);
    });
    EXPECT_GT(most, 0);
    EXPECT_LT(report.empty_blocks_per_sequence, 1);
    EXPECT_GT(report.empty_blocks_per_sequence, 0.1);
  }
}

// Twice as many requests as the machine can serve, for minutes.
TEST(Simulation, UnderOverloadPreemptionIsRareAndBlocksAreUsed) {
  SimWorkload load;
  load.num_requests = 1000;
  const SimReport capacity = simulate(machine(1200), make_workload([&] {
                                        SimWorkload all = load;
                                        all.requests_per_s = 0;
                                        return all;
                                      }()));
  load.requests_per_s = 2 * static_cast<double>(load.num_requests) / capacity.duration_s;
  for (const std::int32_t max_tokens : {0, 1024}) {
    load.max_tokens = max_tokens;
    const SimReport report = simulate(machine(1200), make_workload(load));
    EXPECT_GT(report.saturated_s, report.duration_s / 2);
    EXPECT_LT(static_cast<double>(report.preemptions),
              0.02 * static_cast<double>(report.admissions));
    EXPECT_GE(report.live_share, 0.90);
    EXPECT_GE(report.live_or_cached_share, 0.98);
  }
}

TEST(Simulation, AForecastSparesPreemptions) {
  SimWorkload load;
  load.num_requests = 400;
  load.requests_per_s = 0;
  SimOptions options = machine(200);
  options.scheduler.forecast_growth = false;
  const SimReport without = simulate(options, make_workload(load));
  options.scheduler.forecast_growth = true;
  const SimReport with = simulate(options, make_workload(load));
  EXPECT_LE(with.preemptions, without.preemptions);
}

TEST(Simulation, SharedPrefixesAreHit) {
  SimWorkload load;
  load.num_requests = 200;
  load.num_prefixes = 4;
  load.prefix_tokens = 640;
  load.prompt_mean_tokens = 40;
  SimOptions options = machine(2000);
  const SimReport with = simulate(options, make_workload(load));
  EXPECT_GT(static_cast<double>(with.hit_tokens), 0.8 * static_cast<double>(with.query_tokens));
  options.scheduler.kv.enable_prefix_caching = false;
  const SimReport without = simulate(options, make_workload(load));
  EXPECT_EQ(without.hit_tokens, 0);
  EXPECT_LT(with.duration_s, without.duration_s);
}

// Eight answers run; after a second `prompts` prompts of 4000 tokens come.
struct LongPrompts {
  explicit LongPrompts(const SimOptions& options, int prompts = 1) {
    std::vector<SimRequest> trace;
    for (int i = 0; i < 8; ++i) trace.push_back({0, 20, 800});
    for (int i = 0; i < prompts; ++i) trace.push_back({1, 4000, 1});
    const SimReport report = simulate(options, trace, [&](const SimStep& step) {
      if (step.start_s < 1 && step.prompt_tokens == 0) alone_s.push_back(step.step_s);
      if (step.prompt_tokens > 0 && step.generating > 0) during_s.push_back(step.step_s);
    });
    first_token_s = report.first_token_s.back();
  }
  double ratio(double share) { return percentile(during_s, share) / percentile(alone_s, 0.5); }

  std::vector<double> alone_s, during_s;  // of steps: answers alone, with a prompt
  double first_token_s = 0;               // of the last prompt
};

SimOptions long_prompt_machine() {
  SimOptions options = machine(2000);
  options.scheduler.max_model_len = 8192;
  options.costs.per_context_token_s = 2e-7;  // a prompt's last token costs thrice its first one
  return options;
}

TEST(Simulation, ChunksKeepToTheTimeOfAStep) {
  SimOptions options = long_prompt_machine();
  EXPECT_GT(LongPrompts(options).ratio(1), 20);  // 512 tokens of the prompt at once
  options.scheduler.max_step_s = 0.02;
  LongPrompts limited(options);
  EXPECT_LE(percentile(limited.during_s, 1), 0.022);
  EXPECT_GE(percentile(limited.during_s, 0.5), 0.019);
  options.scheduler.max_step_s = 0.001;  // less than the answers take: prompts get a fifth
  LongPrompts least(options);
  EXPECT_NEAR(least.ratio(0.5), 1.25, 0.1);
  EXPECT_GT(least.first_token_s, limited.first_token_s);
}

TEST(Simulation, ChunksKeepToAMultipleOfAStepWithoutThem) {
  SimOptions options = long_prompt_machine();
  options.scheduler.max_step_ratio = 1.8;
  LongPrompts limited(options);
  EXPECT_LE(limited.ratio(0.99), 2);
  EXPECT_GE(limited.ratio(0.5), 1.7);
  LongPrompts three(options, 3);  // each may add as much
  EXPECT_GE(three.ratio(0.9), 1 + 3 * 0.7);
  EXPECT_LE(three.ratio(0.99), 1 + 3 * 0.9);
  options.scheduler.max_step_s = 0.1;  // the longer of both holds
  LongPrompts longer(options);
  EXPECT_GT(longer.ratio(0.5), 5);
  EXPECT_LT(longer.first_token_s, limited.first_token_s);
}

TEST(Simulation, APromptAloneIsNotCutShort) {
  SimOptions options = long_prompt_machine();
  const std::vector<SimRequest> trace{{0, 4000, 1}};
  const SimReport plain = simulate(options, trace);
  options.scheduler.max_step_ratio = 1.5;
  options.scheduler.max_step_s = 0.001;
  EXPECT_EQ(simulate(options, trace).steps, plain.steps);
}

// Where many requests come, each is slowed down little, and the machine computes as many tokens.
TEST(Simulation, AMultipleCostsHardlyAnyThroughput) {
  SimWorkload load;
  load.num_requests = 400;
  load.requests_per_s = 0;
  const std::vector<SimRequest> trace = make_workload(load);
  SimOptions options = machine(4000);
  options.scheduler.max_num_seqs = 16;
  const SimReport plain = simulate(options, trace);
  options.scheduler.max_step_ratio = 1.8;
  SimReport limited = simulate(options, trace);
  EXPECT_EQ(limited.output_tokens, plain.output_tokens);
  EXPECT_LT(limited.duration_s, 1.1 * plain.duration_s);
}

TEST(Simulation, PlanningAheadHidesTheHost) {
  SimWorkload load;
  load.num_requests = 200;
  load.requests_per_s = 0;
  const std::vector<SimRequest> trace = make_workload(load);
  SimOptions options = machine(1000);
  const double device_s = simulate(options, trace).duration_s;
  options.costs.host_s = 0.005;
  const SimReport in_turns = simulate(options, trace);
  EXPECT_GT(in_turns.duration_s, device_s + 0.99 * 0.005 * static_cast<double>(in_turns.steps));
  options.scheduler.async_scheduling = true;
  const SimReport ahead = simulate(options, trace);
  EXPECT_EQ(ahead.output_tokens, in_turns.output_tokens);
  EXPECT_EQ(ahead.request_s.size(), trace.size());
  EXPECT_LT(ahead.duration_s, device_s + 0.2 * (in_turns.duration_s - device_s));
}

TEST(Simulation, AClientWithOneRequestDoesNotWaitForOneWithHundreds) {
  std::vector<SimRequest> trace;
  for (int i = 0; i < 400; ++i) trace.push_back({0, 100, 100, 0, 0, 0, 0, 1});
  trace.push_back({0.5, 100, 100, 0, 0, 0, 0, 2});
  const SimReport turns = simulate(machine(100), trace);
  for (SimRequest& request : trace) request.client = 0;
  const SimReport arrival = simulate(machine(100), trace);
  EXPECT_LT(turns.queue_s.back(), 0.1 * arrival.queue_s.back());
  EXPECT_NEAR(turns.duration_s, arrival.duration_s, 0.05 * arrival.duration_s);
}

TEST(Simulation, UrgentRequestsHardlyWait) {
  SimWorkload load;
  load.num_requests = 600;
  load.requests_per_s = 20;  // several times what the machine can do
  std::vector<SimRequest> trace = make_workload(load);
  for (std::size_t i = 0; i < trace.size(); ++i) trace[i].priority = i % 20 == 0 ? -1 : 0;
  SimOptions options = machine(300);
  options.scheduler.policy = SchedulingPolicy::kPriority;
  const SimReport report = simulate(options, trace);
  std::vector<double> urgent, others;
  for (std::size_t i = 0; i < trace.size(); ++i)
    (i % 20 == 0 ? urgent : others).push_back(report.queue_s[i]);
  EXPECT_LT(percentile(urgent, 0.9), 1);
  EXPECT_GT(percentile(others, 0.5), 10);
}

}  // namespace
}  // namespace quire
