// Beam search against a slow, obvious one: the same hypotheses whatever room there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/scheduler.h"
#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

constexpr std::int32_t kMaxLen = 96;

struct Hypothesis {
  std::vector<TokenId> tokens;
  double sum = 0, score = 0;
  FinishReason reason = FinishReason::kLength;
};

double score(double sum, std::size_t length, double penalty) {
  return sum / std::pow(static_cast<double>(length), penalty);
}

// Best first. Runs to the end always, which the default of early_stopping must equal.
std::vector<Hypothesis> naive_beams(const Request& request) {
  const std::vector<TokenId>& prompt = *request.prompt;
  const BeamParams& params = *request.beam;
  const auto width = static_cast<std::size_t>(params.width);
  std::vector<Hypothesis> beams(1), done;
  for (std::int32_t i = 1; !beams.empty(); ++i) {
    std::vector<Hypothesis> next;
    for (const Hypothesis& beam : beams) {
      std::vector<TokenId> tokens = prompt;
      tokens.insert(tokens.end(), beam.tokens.begin(), beam.tokens.end());
      for (const auto& [token, logprob] : fake_top(tokens, params.num_candidates())) {
        Hypothesis longer = beam;
        longer.tokens.push_back(token);
        longer.sum += static_cast<double>(logprob);
        const bool end = std::ranges::count(request.stop.eos_ids, token) > 0;
        if (end && i < request.sampling->min_tokens) continue;
        longer.score = score(longer.sum, tokens.size() + (end ? 0 : 1), params.length_penalty);
        longer.reason = end ? FinishReason::kStop : FinishReason::kLength;
        (end ? done : next).push_back(longer);
      }
    }
    std::ranges::stable_sort(next, std::greater{}, &Hypothesis::sum);
    if (next.size() > width) next.resize(width);
    beams = std::move(next);
    if (i == request.stop.max_tokens || static_cast<std::int32_t>(prompt.size()) + i >= kMaxLen) {
      break;
    }
  }
  done.insert(done.end(), beams.begin(), beams.end());
  std::ranges::stable_sort(done, std::greater{}, &Hypothesis::score);
  if (done.size() > width) done.resize(width);
  return done;
}

std::vector<Request> beams_of(std::uint64_t id, std::vector<TokenId> prompt, std::int32_t width,
                              std::int32_t max_tokens, double length_penalty = 1.0) {
  BeamParams beam;
  beam.width = width;
  beam.length_penalty = length_penalty;
  beam.logprobs = 1;
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.logprobs = beam.num_candidates();
  Request first = make_request(id, std::move(prompt), max_tokens, sampling);
  first.beam = beam;
  for (TokenId token = 0; token < kFakeVocab; token += 9) first.stop.eos_ids.push_back(token);
  std::vector<Request> requests;
  for (std::int32_t i = 0; i < width; ++i)
    requests.push_back(make_choice(first, static_cast<std::uint32_t>(i)));
  return requests;
}

void expect_beams(Rig& rig, const std::vector<Request>& requests) {
  const std::vector<Hypothesis> want = naive_beams(requests[0]);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(requests[i].id.value);
    const Output& got = rig.outputs[requests[i].id.value];
    ASSERT_LT(i, want.size());
    EXPECT_EQ(got.tokens, want[i].tokens);
    EXPECT_EQ(got.finish, want[i].reason);
    ASSERT_EQ(got.logprobs.size(), got.tokens.size());
    double sum = 0;
    for (std::size_t t = 0; t < got.tokens.size(); ++t) {
      EXPECT_EQ(got.logprobs[t].token, got.tokens[t]);
      EXPECT_EQ(got.logprobs[t].top.size(), 1u);
      sum += static_cast<double>(got.logprobs[t].logprob);
    }
    EXPECT_NEAR(sum, want[i].sum, 1e-6);
  }
}

struct BeamLoad {
  const char* name;
  std::int32_t num_blocks, num_seqs, budget;
  bool prefix_caching = true;
  std::int32_t window = 0, snapshots = 0;
};

class SchedulerBeams : public testing::TestWithParam<std::tuple<BeamLoad, bool>> {};

TEST_P(SchedulerBeams, AsTheObviousSearch) {
  const auto& [load, async] = GetParam();
  SchedulerOptions options = scheduler_options({});
  if (load.num_blocks > 0) options = scheduler_options({load.num_blocks, load.num_blocks});
  if (load.window > 0) options.kv.groups[1].window = load.window;
  options.max_model_len = kMaxLen;
  options.max_num_seqs = load.num_seqs;
  options.max_num_batched_tokens = load.budget;
  options.kv.enable_prefix_caching = load.prefix_caching;
  options.kv.prefix_match_unit = 1;
  options.kv.recurrent_state = load.snapshots > 0;
  options.kv.num_snapshots = load.snapshots;
  options.kv.snapshot_interval = 8;
  options.async_scheduling = async;
  Rig rig(options);
  std::vector<std::vector<Request>> all;
  std::uint64_t id = 1;
  for (const std::int32_t width : {1, 2, 4, 7}) {
    for (const double penalty : {1.0, 0.0, 2.0}) {
      all.push_back(beams_of(id, prompt_of(static_cast<TokenId>(id * 10), 5 + id % 9), width,
                             3 + width, penalty));
      id += static_cast<std::uint64_t>(width);
    }
  }
  all.push_back(beams_of(id, prompt_of(7, 90), 3, 50));  // up to max_model_len
  for (const auto& requests : all) {
    for (const Request& request : requests) rig.scheduler.add(request, 0);
    if (requests.size() % 2 == 0) rig.step();
  }
  rig.run();
  for (const auto& requests : all) expect_beams(rig, requests);
}

INSTANTIATE_TEST_SUITE_P(
    Loads, SchedulerBeams,
    testing::Combine(
        testing::Values(
            BeamLoad{"plenty", 2048, 64, 2048}, BeamLoad{"chunks", 2048, 64, 5},
            BeamLoad{"uncached", 2048, 64, 64, false}, BeamLoad{"few_blocks", 26, 64, 64},
            BeamLoad{"few_blocks_uncached", 26, 64, 64, false}, BeamLoad{"few_places", 2048, 3, 64},
            BeamLoad{"few_places_and_blocks", 26, 3, 9}, BeamLoad{"one_place", 2048, 1, 64},
            BeamLoad{"window", 60, 64, 64, true, 9}, BeamLoad{"states_only", 0, 64, 64},
            BeamLoad{"states_only_few_places", 0, 3, 64, true, 0, 6},
            BeamLoad{"snapshots", 40, 20, 64, true, 0, 30}),
        testing::Bool()),
    [](const auto& param_info) {
      return std::string(std::get<0>(param_info.param).name) +
             (std::get<1>(param_info.param) ? "_async" : "");
    });

TEST(SchedulerBeam, ThePromptIsComputedOnceAndBlocksAreShared) {
  SchedulerOptions options = scheduler_options({256});
  options.kv.enable_prefix_caching = false;
  Rig rig(options);
  auto requests = beams_of(1, prompt_of(3, 42), 4, 6);
  for (Request& request : requests) {
    request.stop.eos_ids.clear();
    rig.scheduler.add(request, 0);
  }
  std::int32_t computed = 0;
  while (rig.scheduler.has_work()) {
    computed += rig.step().num_tokens();
    EXPECT_LE(rig.scheduler.stats().kv.used_blocks, 10 + 4 * 3);
  }
  EXPECT_EQ(computed, 42 + 5 * 4);
  rig.run();
  expect_beams(rig, requests);
}

TEST(SchedulerBeam, EndTokensWaitForMinTokens) {
  Rig rig(scheduler_options({256}));
  auto requests = beams_of(1, prompt_of(3, 6), 3, 12);
  SamplingParams sampling = *requests[0].sampling;
  sampling.min_tokens = 6;
  for (Request& request : requests) {
    request.sampling = std::make_shared<const SamplingParams>(sampling);
    rig.scheduler.add(request, 0);
  }
  rig.run();
  expect_beams(rig, requests);
  for (const Request& request : requests)
    EXPECT_GE(rig.outputs[request.id.value].tokens.size(), 6u);
}

TEST(SchedulerBeam, EarlyStoppingEndsSooner) {
  std::vector<int> steps;
  for (const auto early : {EarlyStopping::kFirst, EarlyStopping::kExact}) {
    Rig rig(scheduler_options({256}));
    auto requests = beams_of(1, prompt_of(3, 6), 2, 60);
    for (Request& request : requests) {
      request.beam->early_stopping = early;
      rig.scheduler.add(request, 0);
    }
    int n = 0;
    while (rig.scheduler.has_work()) {
      rig.step();
      ++n;
    }
    rig.run();
    steps.push_back(n);
    if (early == EarlyStopping::kExact) expect_beams(rig, requests);
  }
  EXPECT_LT(steps[0], 60);
  EXPECT_LE(steps[0], steps[1]);
}

TEST(SchedulerBeam, AbortsOfSomeOrAllLeaveNothingBehind) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    SchedulerOptions options = scheduler_options({20 + static_cast<std::int32_t>(random() % 40)});
    options.max_num_seqs = 1 + static_cast<std::int32_t>(random() % 6);
    options.max_model_len = kMaxLen;
    Rig rig(options);
    const auto some = beams_of(1, prompt_of(3, 9), 4, 12),
               others = beams_of(11, prompt_of(60, 9), 3, 9);
    for (const Request& request : some) rig.scheduler.add(request, 0);
    for (const Request& request : others) rig.scheduler.add(request, 0);
    const auto steps = random() % 12;
    for (std::size_t i = 0; i < steps && rig.scheduler.has_work(); ++i) rig.step();
    const StepPlan plan = rig.plan();
    const bool all = random() % 2 == 0;
    for (const Request& request : some) {
      if (all || request.id.value % 2 == 0) rig.scheduler.abort(request.id);
    }
    rig.expect_intact();
    rig.apply(plan, rig.executor.run(plan));
    rig.run();
    expect_beams(rig, others);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(BeamSearch, RanksBySumOverLength) {
  EXPECT_DOUBLE_EQ(beam_score(-6, 3, 1), -2);
  EXPECT_DOUBLE_EQ(beam_score(-6, 3, 0), -6);
  BeamParams params;
  params.width = 2;
  const std::vector<double> scores{-1.0, -0.5};
  EXPECT_FALSE(beams_done(std::span(scores).first(1), -100, 10, 20, params));
  EXPECT_FALSE(beams_done(scores, -15, 10, 20, params));  // could still come to -15 / 20
  EXPECT_TRUE(beams_done(scores, -25, 10, 20, params));
  params.early_stopping = EarlyStopping::kHeuristic;
  EXPECT_TRUE(beams_done(scores, -15, 10, 20, params));
  EXPECT_FALSE(beams_done(scores, -5, 10, 20, params));
  params.early_stopping = EarlyStopping::kFirst;
  EXPECT_TRUE(beams_done(scores, -5, 10, 20, params));
}

}  // namespace
}  // namespace quire
