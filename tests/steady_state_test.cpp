// Steps of sequences that generate allocate nothing, with whole models: planning, forward pass,
// logits, draws and results. Counts operator new on all threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "step_driver.h"

namespace {
std::atomic<std::int64_t> num_allocations{0};
}

// NOLINTBEGIN: replacements of the global operators; not inlined, or GCC sees free meet a new
[[gnu::noinline]] void* operator new(std::size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// Of stable_sort, for one. AddressSanitizer's own would meet the free() below.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND

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
    if (step == kFromStep) before = num_allocations;
    StepPlan plan = scheduler.plan(step, {});
    model.runner->submit(plan);
    model.runner->sample({});
    model.runner->wait(result);
    scheduler.apply(plan, result, step, updates);
    EXPECT_EQ(updates.size(), static_cast<std::size_t>(kSequences));
    scheduler.recycle(std::move(plan));
  }
  EXPECT_EQ(num_allocations - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, SteadyState,
                         testing::Values("tests/golden/llama", "tests/golden/qwen3_moe",
                                         "tests/golden/gemma3_text", "tests/golden/jamba",
                                         "tests/golden/qwen3_next", "tests/golden/deepseek_v3",
                                         "tests/golden/mamba2", "tests/golden/gpt_oss"));

}  // namespace
}  // namespace quire
