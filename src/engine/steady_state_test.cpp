// A step of sequences that generate costs no allocation: plan, start, result, updates. Counts what
// operator new gives to the engine thread and to the thread that runs steps; the output thread,
// which makes text, is not looked at.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/allocation_count.h"
#include "base/clock.h"
#include "engine/engine_test_util.h"

namespace quire {
namespace {

constexpr int kFromStep = 300, kToStep = 700;  // looked at; all requests generate
constexpr int kSequences = 16, kTokens = 900;

// This thread's allocations between the two steps.
class Watch {
 public:
  void step(int number) {
    if (number == kFromStep) before_ = allocation_count::of_this_thread;
    if (number == kToStep) found_ = allocation_count::of_this_thread - before_;
  }
  std::int64_t found() const { return found_; }

 private:
  std::int64_t before_ = 0;
  std::atomic<std::int64_t> found_{-1};
};

// on_step is called by the engine thread, the others by the output thread.
struct Observer : EngineObserver {
  void on_first_token(double) override { ++told; }
  void on_inter_token(double) override { ++told; }
  void on_finished(const RequestTimings&) override {}
  void on_step(std::int32_t, double) override { watch.step(++steps); }

  Watch watch;
  int steps = 0;
  std::atomic<std::int64_t> told{0};  // tokens that the output thread has passed on
};

// A step takes until the output thread has passed on the tokens of the steps before it, as a real
// one does.
class QuietDevice : public Executor {
 public:
  QuietDevice(Observer* observer, Watch* watch) : observer_(observer), watch_(watch) {
    capacity_.vocab_size = kFakeVocab;
  }
  const Capacity& capacity() const override { return capacity_; }
  void warm_up() override {}
  void submit(const StepPlan& plan) override { plan_ = &plan; }
  void sample(std::span<const TokenMask>) override {}
  void wait(StepResult& result) override {
    watch_->step(++steps_);
    while (steps_ < kToStep + 50 && observer_->told < drawn_) std::this_thread::yield();
    result.step = plan_->step;
    result.rows.assign(plan_->rows.size(), {});
    for (std::size_t r = 0; r < result.rows.size(); ++r) {
      if (!plan_->rows[r].sample) continue;
      result.rows[r].token = static_cast<TokenId>('a' + (steps_ + static_cast<int>(r)) % 26);
      ++drawn_;
    }
  }

 private:
  Observer* observer_;
  Watch* watch_;
  Capacity capacity_;
  const StepPlan* plan_ = nullptr;
  int steps_ = 0;
  std::int64_t drawn_ = 0;
};

class SteadyState : public testing::TestWithParam<bool> {};

TEST_P(SteadyState, AStepAllocatesNothing) {
#ifdef QUIRE_DEBUG_CHECKS
  GTEST_SKIP() << "the checks of every step, which this build makes, allocate";
#endif
  const auto tokenizer = test::byte_tokenizer();
  Observer observer;
  Watch device_watch;
  EngineOptions options;
  options.scheduler = scheduler_options({2048, 2048}, 8);
  options.scheduler.kv.groups[1].window = 40;
  options.scheduler.max_model_len = 2000;
  options.scheduler.async_scheduling = GetParam();
  std::vector<std::unique_ptr<test::Client>> clients;
  Engine engine(options, std::make_unique<QuietDevice>(&observer, &device_watch), tokenizer.get(),
                &observer);
  for (int i = 0; i < kSequences; ++i) {
    clients.push_back(std::make_unique<test::Client>());
    Request request =
        make_request(engine.next_id().value,
                     std::vector<TokenId>(static_cast<std::size_t>(5 + 3 * i), i), kTokens);
    request.stop.ignore_eos = true;
    request.arrival_s = now_s();
    request.channel = clients.back()->channel();
    ASSERT_TRUE(engine.submit(std::move(request)));
  }
  for (auto& client : clients) EXPECT_EQ(client->read_all().completion_tokens, kTokens);
  EXPECT_EQ(observer.watch.found(), 0) << "on the engine thread";
  EXPECT_EQ(device_watch.found(), 0) << "on the thread of the steps";
}

INSTANTIATE_TEST_SUITE_P(Async, SteadyState, testing::Bool(), [](const auto& param_info) {
  return param_info.param ? "async" : "one_by_one";
});

}  // namespace
}  // namespace quire
