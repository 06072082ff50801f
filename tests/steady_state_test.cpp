// Steps of sequences that generate allocate nothing, with whole models: planning, forward pass,
// logits, draws and results. Counts operator new on all threads.
#include <gtest/gtest.h>

#include "base/allocation_count.h"
#include "step_driver.h"

namespace quire {
namespace {

constexpr int kSequences = 8, kFromStep = 40, kToStep = 100;

class SteadyState : public testing::TestWithParam<const char*> {};

TEST_P(SteadyState, AStepAllocatesNothing) {
#ifdef QUIRE_DEBUG_CHECKS
  GTEST_SKIP() << "the checks of every step, which this build makes, allocate";
#endif
  // Of several threads one may draw its first token, into scratch space of its own, late.
  EngineFlags flags;
  flags.threads = 1;
  const LoadedModel model = load_for_test(GetParam(), "auto", flags);
  FollowOptions follow;
  SchedulerOptions options =
      scheduler_options(*model.runner, static_cast<std::int32_t>(model.max_model_len), follow);
  Scheduler scheduler(options);
  for (int i = 0; i < kSequences; ++i) {
    SamplingParams sampling;
    sampling.temperature = i % 2 == 0 ? 0.0 : 1.0;
    sampling.top_p = 0.9;
    sampling.seed = static_cast<std::uint64_t>(i);
    Request request;
    request.id = RequestId(static_cast<std::uint64_t>(i) + 1);
    request.prompt = std::make_shared<std::vector<TokenId>>(static_cast<std::size_t>(3 + i), 7 + i);
    request.sampling = std::make_shared<SamplingParams>(sampling);
    request.stop.max_tokens = kToStep + 20;
    request.stop.ignore_eos = true;
    scheduler.add(std::move(request), 0);
  }
  StepResult result;
  std::vector<SequenceUpdate> updates;
  std::int64_t before = 0;
  for (int step = 1; step <= kToStep; ++step) {
    if (step == kFromStep) before = allocation_count::of_all_threads;
    StepPlan plan = scheduler.plan(step, {});
    model.runner->submit(plan);
    model.runner->sample({});
    model.runner->wait(result);
    scheduler.apply(plan, result, step, updates);
    EXPECT_EQ(updates.size(), static_cast<std::size_t>(kSequences));
    scheduler.recycle(std::move(plan));
  }
  EXPECT_EQ(allocation_count::of_all_threads - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, SteadyState,
                         testing::Values("tests/golden/llama", "tests/golden/qwen3_moe",
                                         "tests/golden/gemma3_text", "tests/golden/jamba",
                                         "tests/golden/qwen3_next", "tests/golden/deepseek_v3",
                                         "tests/golden/mamba2", "tests/golden/gpt_oss"));

}  // namespace
}  // namespace quire
