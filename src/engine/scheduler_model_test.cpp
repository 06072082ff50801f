// A hundred thousand random operations on the scheduler, against a model that only knows what each
// request gives alone and who is still alive. Every integrity check after every operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "base/sanitized.h"
#include "engine/scheduler.h"
#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed), options_(make_options()), rig_(options_) {}

  void run(int num_operations) {
    for (int i = 0; i < num_operations && !testing::Test::HasFatalFailure(); ++i) {
      operate();
      check();
      if (testing::Test::HasFailure()) FAIL() << "after operation " << i;
    }
    while (!planned_.empty()) apply();
    rig_.run();
    for (const auto& [id, request] : requests_) {
      SCOPED_TRACE(id);
      if (!dropped_.contains(id))
        expect_same(rig_.outputs[id], expected_output(request, options_.max_model_len), request);
    }
    EXPECT_TRUE(rig_.scheduler.reset_prefix_cache());
  }

 private:
  std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(random_() % static_cast<unsigned>(n));
  }

  SchedulerOptions make_options() {
    SchedulerOptions options = scheduler_options({12 + below(60)}, 1 + below(6));
    options.max_num_batched_tokens = 1 + below(60);
    options.max_num_seqs = 1 + below(16);
    options.max_model_len = std::min(80, options.kv.groups[0].num_blocks * options.kv.block_size);
    options.long_prefill_token_threshold = below(2) * below(20);
    options.policy = below(2) == 0 ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
    options.forecast_growth = below(2) == 0;
    options.async_scheduling = below(2) == 0;
    options.max_step_s = below(3) == 0 ? 0.01 : 0;
    if (below(3) == 0) options.kv.groups.push_back({options.kv.groups[0].num_blocks, 9, false});
    return options;
  }

  void operate() {
    switch (below(10)) {
      case 0:
        if (alive_.size() < 40) add();
        break;
      case 1:
        if (!alive_.empty() && below(4) == 0) drop();
        break;
      case 2:
        now_s_ += 0.01 * below(30);
        expire();
        break;
      case 3:
        if (below(10) == 0) rig_.scheduler.reset_prefix_cache();
        break;
      default:
        if (planned_.size() < 3 && below(2) == 0) {
          planned_.push_back(rig_.scheduler.plan(now_s_, {0.001, 0.0001, 0.0005}));
          if (planned_.back().rows.empty() && planned_.back().empty()) planned_.pop_back();
        } else if (!planned_.empty()) {
          apply();
        }
    }
  }

  void add() {
    const std::uint64_t id = next_id_++;
    const std::int32_t length = 1 + below(options_.max_model_len - 1);
    std::vector<TokenId> prompt;
    for (std::int32_t i = 0; i < length; ++i)
      prompt.push_back(i < length / 2 ? 3000 + i : below(kFakeVocab));
    Request request = make_request(id, std::move(prompt), 1 + below(40));
    if (!rig_.scheduler.could_fit(length + 1)) return;
    for (int i = 0; i < 10; ++i) request.stop.eos_ids.push_back(below(kFakeVocab));
    request.priority = below(3);
    request.client = static_cast<std::uint64_t>(below(4));
    request.arrival_s = now_s_;
    if (below(4) == 0) request.deadline_s = now_s_ + 0.01 * (1 + below(200));
    if (below(4) == 0) request.queue_deadline_s = now_s_ + 0.01 * (1 + below(100));
    alive_.push_back(id);
    requests_.emplace(id, request);
    rig_.scheduler.add(std::move(request), now_s_);
  }

  void drop() {
    const std::uint64_t id =
        alive_[static_cast<std::size_t>(below(static_cast<int>(alive_.size())))];
    EXPECT_TRUE(below(2) == 0 ? rig_.scheduler.abort(RequestId(id))
                              : rig_.scheduler.finish(RequestId(id)));
    forget(id);
  }

  void forget(std::uint64_t id) {
    dropped_[id] = true;
    std::erase(alive_, id);
  }

  void expire() {
    for (const ExpiredRequest& expired : rig_.scheduler.expire(now_s_)) {
      const Request& request = requests_.at(expired.id.value);
      EXPECT_LE(expired.in_queue ? request.queue_deadline_s : request.deadline_s, now_s_);
      EXPECT_TRUE(!expired.in_queue || rig_.outputs[expired.id.value].tokens.empty());
      EXPECT_NE(std::ranges::find(alive_, expired.id.value), alive_.end());
      forget(expired.id.value);
    }
    for (const std::uint64_t id : alive_) {
      const double deadline_s = requests_.at(id).deadline_s;
      EXPECT_TRUE(deadline_s == 0 || deadline_s > now_s_);
    }
  }

  void apply() {
    const StepPlan plan = std::move(planned_.front());
    planned_.pop_front();
    rig_.apply(plan, rig_.executor.run(plan));
    std::erase_if(alive_, [&](std::uint64_t id) { return rig_.outputs[id].finish.has_value(); });
  }

  void check() {
    rig_.expect_intact();
    const SchedulerStats stats = rig_.scheduler.stats();
    EXPECT_EQ(static_cast<std::size_t>(stats.running + stats.waiting), alive_.size());
    EXPECT_LE(stats.running, options_.max_num_seqs);
    EXPECT_EQ(rig_.scheduler.has_work(), !alive_.empty());
  }

  std::mt19937 random_;
  SchedulerOptions options_;
  Rig rig_;
  double now_s_ = 1;
  std::uint64_t next_id_ = 1;
  std::vector<std::uint64_t> alive_;
  std::map<std::uint64_t, bool> dropped_;
  std::map<std::uint64_t, Request> requests_;
  std::deque<StepPlan> planned_;
};

TEST(SchedulerModel, AHundredThousandRandomOperations) {
  for (int seed = 1; seed <= repeats(20); ++seed) {
    SCOPED_TRACE(seed);
    Model(static_cast<unsigned>(seed)).run(5000);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace quire
