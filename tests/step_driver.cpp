#include "step_driver.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "base/check.h"
#include "kernels/cpu/kernels.h"

namespace quire {
namespace {

std::shared_ptr<const std::vector<TokenId>> shared(std::vector<TokenId> tokens) {
  return std::make_shared<const std::vector<TokenId>>(std::move(tokens));
}

Request make_request(std::uint64_t id, std::vector<TokenId> prompt, const SamplingParams& sampling,
                     int max_tokens) {
  Request request;
  request.id = RequestId{id};
  request.prompt = shared(std::move(prompt));
  request.sampling = std::make_shared<SamplingParams>(sampling);
  request.stop.max_tokens = max_tokens;
  request.stop.ignore_eos = true;
  return request;
}

// Requests that come and go at random beside the followed one.
class Crowd {
 public:
  Crowd(Scheduler& scheduler, std::vector<TokenId> followed_prompt, std::int64_t vocab,
        const FollowOptions& options)
      : scheduler_(scheduler),
        prompt_(std::move(followed_prompt)),
        vocab_(vocab),
        left_(options.others),
        rng_(options.seed) {}

  void maybe_join(std::uint64_t step) {
    while (left_ > 0 && rng_() % 3 != 0) {
      std::vector<TokenId> prompt;
      if (rng_() % 3 == 0)
        prompt.assign(prompt_.begin(),
                      prompt_.begin() + static_cast<std::ptrdiff_t>(1 + rng_() % prompt_.size()));
      const std::size_t more = 1 + rng_() % 40;
      for (std::size_t i = 0; i < more; ++i)
        prompt.push_back(static_cast<TokenId>(4 + rng_() % static_cast<std::uint64_t>(vocab_ - 4)));
      SamplingParams sampling;
      sampling.temperature = rng_() % 2 == 0 ? 0.0 : 1.0;
      sampling.seed = rng_();
      const std::uint64_t id = 1000 + static_cast<std::uint64_t>(left_);
      scheduler_.add(
          make_request(id, std::move(prompt), sampling, static_cast<int>(1 + rng_() % 30)),
          static_cast<double>(step));
      ids_.push_back(id);
      --left_;
    }
    if (!ids_.empty() && rng_() % 10 == 0) scheduler_.abort(RequestId{ids_[rng_() % ids_.size()]});
  }

 private:
  Scheduler& scheduler_;
  std::vector<TokenId> prompt_;
  std::int64_t vocab_;
  int left_;
  std::mt19937_64 rng_;
  std::vector<std::uint64_t> ids_;
};

}  // namespace

LoadedModel load_for_test(const std::string& relative, const std::string& dtype,
                          const EngineFlags& base) {
  EngineFlags flags = base;
  flags.model = source_path(relative);
  flags.dtype = dtype;
  if (!flags.num_gpu_blocks_override) flags.num_gpu_blocks_override = 64;
  Result<LoadedModel> model = load_model(flags);
  if (!model) {
    ADD_FAILURE() << relative << ": " << model.error().message;
    throw std::runtime_error(model.error().message);
  }
  return std::move(*model);
}

PlainRun run_plain(ModelRunner& runner, std::span<const TokenId> prompt, int greedy) {
  PlainRun run;
  runner.set_logits_hook([&](const StepPlan&, std::span<const std::int32_t>,
                             std::span<const std::int32_t> positions, const float* logits) {
    const auto vocab = static_cast<std::ptrdiff_t>(runner.capacity().vocab_size);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const float* row = logits + static_cast<std::ptrdiff_t>(i) * vocab;
      run.logits[positions[i]].assign(row, row + vocab);
    }
  });
  const std::int32_t block_size = runner.capacity().geometry.block_size;
  auto params = std::make_shared<SamplingParams>();
  params->temperature = 0;
  StepPlan plan;
  plan.added.push_back({SlotId{0}, params, shared({prompt.begin(), prompt.end()})});
  plan.token_ids.assign(prompt.begin(), prompt.end());
  std::int32_t position = 0;
  for (int i = 0; i < greedy; ++i) {
    const auto count = static_cast<std::int32_t>(plan.token_ids.size());
    plan.rows = {{SlotId{0}, position, count, 0, true, false}};
    position += count;
    // Blocks in an order that is not that of the tokens.
    for (const std::int32_t num_blocks : runner.capacity().num_blocks) {
      std::vector<std::int32_t>& table = plan.block_table.emplace_back();
      for (std::int32_t b = 0; b * block_size < position; ++b) table.push_back(num_blocks - 1 - b);
      plan.table_begin.push_back({0, static_cast<std::int32_t>(table.size())});
    }
    runner.submit(plan);
    runner.sample({});
    run.tokens.push_back(runner.wait().rows.at(0).token);
    plan = {};
    plan.token_ids = {kTokenFromPreviousStep};
  }
  plan = {};
  plan.removed = {SlotId{0}};
  runner.submit(plan);
  runner.sample({});
  runner.wait();
  runner.set_logits_hook({});
  return run;
}

SchedulerOptions scheduler_options(const ModelRunner& runner, std::int32_t max_model_len,
                                   const FollowOptions& options) {
  SchedulerOptions result;
  result.forecast_growth = false;  // it would leave hardly any preemption to look at
  result.max_num_batched_tokens = options.max_num_batched_tokens;
  result.async_scheduling = options.async;
  result.max_num_seqs = 64;
  result.max_model_len = max_model_len;
  result.kv.block_size = options.block_size;
  result.kv.enable_prefix_caching = options.prefix_caching;
  result.kv.prefix_match_unit = 1;
  result.kv.recurrent_state = runner.capacity().recurrent_state;
  result.kv.num_snapshots = std::min(options.num_snapshots, runner.capacity().num_snapshots);
  result.kv.snapshot_interval = std::max(options.snapshot_interval, options.block_size);
  for (const KvGroup& group : runner.capacity().geometry.groups)
    result.kv.groups.push_back({options.num_blocks, group.window, false});
  for (const std::int32_t num_blocks : runner.capacity().num_blocks)
    QUIRE_CHECK(options.num_blocks <= num_blocks, "the cache has {} blocks, the test wants {}",
                num_blocks, options.num_blocks);
  return result;
}

Followed run_followed(ModelRunner& runner, std::int32_t max_model_len, std::vector<TokenId> prompt,
                      const SamplingParams& sampling, int max_tokens,
                      const FollowOptions& options) {
  Scheduler scheduler(scheduler_options(runner, max_model_len, options));
  Crowd crowd(scheduler, prompt, runner.capacity().vocab_size, options);
  Followed followed;
  const Request request = make_request(1, std::move(prompt), sampling, max_tokens);
  SlotId slot = kNoSlot;
  runner.set_logits_hook([&](const StepPlan& plan, std::span<const std::int32_t> rows,
                             std::span<const std::int32_t> positions, const float* logits) {
    const auto vocab = static_cast<std::ptrdiff_t>(runner.capacity().vocab_size);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (plan.rows[static_cast<std::size_t>(rows[i])].slot != slot) continue;
      const float* row = logits + static_cast<std::ptrdiff_t>(i) * vocab;
      followed.logits[positions[i]].assign(row, row + vocab);
    }
  });
  bool added = false, finished = false;
  std::optional<StepPlan> ahead;
  std::uint64_t step = 0;
  for (; step < 100000 && (!added || scheduler.has_work() || ahead); ++step) {
    const auto now = static_cast<double>(step);
    if (!added && step >= static_cast<std::uint64_t>(options.lead_steps)) {
      scheduler.add(request, now);
      added = true;
    }
    crowd.maybe_join(step);
    const StepPlan plan = ahead ? *std::exchange(ahead, std::nullopt) : scheduler.plan(now, {});
    for (const SlotId gone : plan.removed) {
      if (gone == slot) slot = kNoSlot;
    }
    for (const StepPlan::AddedSlot& slot_added : plan.added) {
      if (slot_added.prompt == request.prompt) slot = slot_added.slot;
    }
    runner.submit(plan);
    if (scheduler.can_plan_ahead()) {
      ahead = scheduler.plan(now, {});
      ++followed.planned_ahead;
    }
    runner.sample({});
    const StepResult result = runner.wait();
    for (const SequenceUpdate& update : scheduler.apply(plan, result, now)) {
      if (update.id != request.id) continue;
      followed.tokens.insert(followed.tokens.end(), update.tokens.begin(), update.tokens.end());
      followed.cached_tokens = update.cached_tokens;
      finished |= update.finish.has_value();
    }
    const Status integrity = scheduler.check_integrity();
    EXPECT_TRUE(integrity) << integrity.error().message;
  }
  EXPECT_TRUE(finished) << "the followed request never finished";
  followed.preemptions = scheduler.stats().preemptions;
  EXPECT_EQ(scheduler.stats().kv.used_blocks, 0);
  // The executor forgets the last slots.
  const StepPlan last = scheduler.plan(0, {});
  runner.submit(last);
  runner.sample({});
  runner.wait();
  runner.set_logits_hook({});
  return followed;
}

std::vector<std::string> kernel_table_names() {
  std::vector<std::string> names;
  for (const KernelTable* table : available_kernels()) names.emplace_back(table->name);
  return names;
}

std::vector<TokenId> long_prompt() {
  std::vector<TokenId> prompt;
  for (int i = 0; i < 100; ++i) prompt.push_back(4 + (i * 37 + i * i) % 500);
  return prompt;
}

void expect_same_bits(const Followed& want, const Followed& got, const std::string& what) {
  EXPECT_EQ(want.tokens, got.tokens) << what;
  for (const auto& [position, row] : want.logits) {
    const auto found = got.logits.find(position);
    if (found == got.logits.end()) continue;  // computed in the same step as a later one, or cached
    EXPECT_EQ(std::memcmp(row.data(), found->second.data(), row.size() * sizeof(float)), 0)
        << what << ": logits differ at position " << position;
  }
  EXPECT_GE(got.logits.size(), 20u) << what;
}

}  // namespace quire
