// What a request gives must not depend on what runs beside it: the same outputs alone, under load,
// in chunks, through preemptions and prefix hits; and after thousands of requests with random
// aborts nothing is held and nobody starved.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "base/sanitized.h"
#include "engine/scheduler.h"
#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

constexpr std::int32_t kMaxModelLen = 96;

class RandomRequests {
 public:
  explicit RandomRequests(unsigned seed) : random_(seed) {}

  std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(random_() % static_cast<unsigned>(n));
  }

  // Many share a prefix with others; some want log-probabilities of the prompt, some end early by a
  // stop token.
  Request next(std::uint64_t id, std::int32_t max_prompt, std::int32_t max_tokens) {
    std::vector<TokenId> prompt;
    const std::int32_t length = 1 + below(max_prompt), shared = below(2) * below(length + 1);
    const TokenId family = 2000 + 100 * below(3);
    for (std::int32_t i = 0; i < length; ++i)
      prompt.push_back(i < shared ? family + i : below(kFakeVocab));
    SamplingParams params;
    params.logprobs = below(3) - 1;
    params.prompt_logprobs = below(4) == 0 ? 1 : -1;
    params.min_tokens = below(3);
    Request request =
        make_request(id, std::move(prompt), below(8) == 0 ? 0 : 1 + below(max_tokens), params);
    for (int i = 0; i < 20; ++i) {
      (i % 2 == 0 ? request.stop.eos_ids : request.stop.stop_token_ids)
          .push_back(below(kFakeVocab));
    }
    request.stop.ignore_eos = below(4) == 0;
    request.cache_salt = static_cast<std::uint64_t>(below(2));
    request.priority = below(3) - 1;
    request.client = static_cast<std::uint64_t>(below(3));
    return request;
  }

  // That, and sometimes more choices for its prompt; ids go on from that of the first.
  std::vector<Request> next_family(std::uint64_t id, std::int32_t max_prompt,
                                   std::int32_t max_tokens) {
    std::vector<Request> requests{next(id, max_prompt, max_tokens)};
    if (below(3) != 0) return requests;
    for (std::int32_t choices = 2 + below(5); choices > 0; --choices) {
      const auto i = static_cast<std::uint32_t>(requests.size());
      requests.push_back(make_choice(requests[0], i));
    }
    requests[0].family = requests[0].id;
    return requests;
  }

 private:
  std::mt19937 random_;
};

struct Load {
  const char* name;
  std::int32_t budget, num_seqs, num_blocks;
  bool prefix_caching;
  std::int32_t window = 0;     // of the second group
  std::int32_t snapshots = 0;  // more than 0: recurrent state beside the blocks, or alone
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  std::int32_t threshold = 0;  // of long prompts
  bool forecast = false;       // which would leave hardly any preemption to test
};

// Each load with steps planned one after the other, and ahead.
class SchedulerInvariance : public testing::TestWithParam<std::tuple<Load, bool>> {};

// 32 requests that join at random moments.
TEST_P(SchedulerInvariance, SameOutputsUnderEveryLoad) {
  const auto& [load, async] = GetParam();
  SchedulerOptions options = scheduler_options({});  // 0 blocks: no groups, states only
  if (load.num_blocks > 0) options = scheduler_options({load.num_blocks, load.num_blocks + 3});
  if (load.window > 0) options.kv.groups[1] = {load.num_blocks * 2 / 3, load.window, false};
  options.max_model_len = kMaxModelLen;
  options.max_num_batched_tokens = load.budget;
  options.max_num_seqs = load.num_seqs;
  options.kv.enable_prefix_caching = load.prefix_caching;
  options.policy = load.policy;
  options.long_prefill_token_threshold = load.threshold;
  options.forecast_growth = load.forecast;
  options.kv.prefix_match_unit = load.num_seqs % 2 == 0 ? 1 : 2;
  options.kv.recurrent_state = load.snapshots > 0;
  options.kv.num_snapshots = load.snapshots;
  options.kv.snapshot_interval = load.snapshots > 100 ? 4 : 8;
  options.async_scheduling = async;
  Rig rig(options);
  RandomRequests random(5);
  std::vector<Request> requests;
  while (requests.size() < 32) {
    for (const Request& request : random.next_family(requests.size(), 40, 30)) {
      requests.push_back(request);
      rig.scheduler.add(request, 0);
    }
    for (int steps = random.below(3); steps > 0; --steps) rig.step();
  }
  rig.run();
  for (const Request& request : requests) {
    SCOPED_TRACE(request.id.value);
    expect_same(rig.outputs[request.id.value], expected_output(request, kMaxModelLen), request);
  }
  EXPECT_EQ(rig.num_planned_ahead > 0, async);
  EXPECT_EQ(rig.executor.num_unseen() > 0, async);
  if (load.num_blocks > 0 && load.num_blocks <= 32 && !load.forecast && load.num_seqs > 1) {
    EXPECT_GT(rig.scheduler.stats().preemptions, 0);
  }
}

constexpr auto kFcfs = SchedulingPolicy::kFcfs, kPriority = SchedulingPolicy::kPriority;

INSTANTIATE_TEST_SUITE_P(
    Loads, SchedulerInvariance,
    testing::Combine(
        testing::Values(
            Load{"alone", 2048, 1, 64, false}, Load{"together", 2048, 32, 2048, true},
            Load{"uncached", 2048, 32, 2048, false}, Load{"chunks_of_1", 1, 32, 2048, true},
            Load{"chunks_of_7", 7, 32, 2048, true}, Load{"chunks_of_64", 64, 32, 2048, true},
            Load{"few_blocks", 2048, 32, 26, true}, Load{"few_blocks_in_chunks", 7, 32, 26, true},
            Load{"few_blocks_uncached", 64, 32, 24, false}, Load{"window", 2048, 32, 2048, true, 5},
            Load{"window_in_chunks", 7, 32, 2048, true, 9},
            Load{"window_few_blocks", 7, 32, 32, true, 8},
            Load{"window_few_blocks_uncached", 9, 32, 26, false, 3},
            Load{"states_only", 64, 32, 0, true}, Load{"states_only_in_chunks", 5, 3, 0, true},
            Load{"snapshots", 64, 32, 2048, true, 0, 400},
            Load{"snapshots_only", 64, 32, 0, true, 0, 400},
            Load{"few_snapshots_only", 5, 3, 0, true, 0, 3},
            Load{"few_snapshots_few_blocks", 7, 32, 26, true, 0, 5},
            Load{"snapshots_window_few_blocks", 9, 32, 32, true, 8, 20},
            Load{"side_by_side", 64, 32, 2048, true, 0, 0, kFcfs, 5},
            Load{"priority", 2048, 4, 2048, true, 0, 0, kPriority},
            Load{"priority_few_blocks", 2048, 32, 26, true, 0, 0, kPriority},
            Load{"priority_few_blocks_side_by_side", 30, 32, 26, true, 0, 0, kPriority, 7},
            Load{"priority_few_blocks_uncached", 9, 5, 24, false, 0, 0, kPriority},
            Load{"priority_window", 7, 32, 32, true, 8, 0, kPriority},
            Load{"priority_snapshots", 7, 8, 30, true, 0, 9, kPriority, 5},
            Load{"priority_states_only", 5, 3, 0, true, 0, 0, kPriority, 3},
            Load{"forecast", 64, 32, 40, true, 0, 0, kFcfs, 0, true},
            Load{"forecast_priority", 64, 32, 40, true, 0, 0, kPriority, 9, true}),
        testing::Bool()),
    [](const auto& param_info) {
      return std::string(std::get<0>(param_info.param).name) +
             (std::get<1>(param_info.param) ? "_async" : "");
    });

// One history: requests join, are aborted or finished from outside between plan and apply, and
// plans are sometimes made ahead. Those that were left alone must have got exactly what they get
// alone.
void simulate(unsigned seed, std::uint64_t num_requests) {
  RandomRequests random(seed);
  SchedulerOptions options = scheduler_options({20 + random.below(60)}, 1 + random.below(8));
  options.max_num_batched_tokens = 1 + random.below(80);
  options.max_num_seqs = 1 + random.below(24);
  options.long_prefill_token_threshold = random.below(2) * (1 + random.below(30));
  if (random.below(2) == 0) options.policy = SchedulingPolicy::kPriority;
  options.forecast_growth = random.below(2) == 0;
  options.async_scheduling = random.below(2) == 0;
  if (random.below(2) == 0) {
    const std::int32_t num_blocks = options.kv.groups[0].num_blocks;
    options.kv.groups.push_back({num_blocks, 1 + random.below(30), false});
  }
  options.kv.prefix_match_unit = random.below(4);
  if (random.below(3) == 0) {
    options.kv.recurrent_state = true;
    options.kv.num_snapshots = random.below(30);
    options.kv.snapshot_interval = options.kv.block_size * (1 + random.below(3));
  }
  const std::int32_t positions = options.kv.groups[0].num_blocks * options.kv.block_size;
  options.max_model_len = std::min(kMaxModelLen, positions + 1);
  if (random.below(4) == 0) {
    options.kv.hash = [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 1; };
  }
  Rig rig(options);
  std::vector<Request> requests;
  std::set<std::uint64_t> dropped;
  std::deque<StepPlan> planned;
  const auto apply_oldest = [&] {
    const StepPlan plan = std::move(planned.front());
    planned.pop_front();
    rig.apply(plan, rig.executor.run(plan));
  };
  while (requests.size() < num_requests || rig.scheduler.has_work()) {
    for (int joins = random.below(3); joins > 0 && requests.size() < num_requests; --joins) {
      const std::int32_t max_prompt = std::min(options.max_model_len - 1, 60);
      for (const Request& request : random.next_family(requests.size(), max_prompt, 40)) {
        requests.push_back(request);
        rig.scheduler.add(request, 0);
      }
    }
    planned.push_back(rig.plan());
    if (random.below(3) == 0 && !requests.empty()) {
      const std::uint64_t id = requests.size() - 1 -
                               static_cast<std::uint64_t>(random.below(
                                   std::min(30, static_cast<std::int32_t>(requests.size()))));
      const bool known = random.below(2) == 0 ? rig.scheduler.abort(RequestId(id))
                                              : rig.scheduler.finish(RequestId(id));
      if (known) dropped.insert(id);
    }
    if (random.below(50) == 0) rig.scheduler.reset_prefix_cache();
    rig.expect_intact();
    if (random.below(4) != 0 || planned.size() > 2) {
      while (!planned.empty()) apply_oldest();
    }
    if (testing::Test::HasFailure()) return;
  }
  while (!planned.empty()) apply_oldest();
  rig.run();
  EXPECT_TRUE(rig.scheduler.reset_prefix_cache());
  for (const Request& request : requests) {
    if (dropped.contains(request.id.value)) continue;
    SCOPED_TRACE(request.id.value);
    expect_same(rig.outputs[request.id.value], expected_output(request, options.max_model_len),
                request);
  }
}

TEST(SchedulerSimulation, RandomHistoriesEndCleanAndNobodyStarves) {
  for (int seed = 1; seed <= repeats(24); ++seed) {
    SCOPED_TRACE(seed);
    simulate(static_cast<unsigned>(seed), 125);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace quire
