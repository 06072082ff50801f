// What planning costs: scheduler and KV cache without a device, in the steady state of N sequences
// that generate; steps planned one after the other, and ahead. Prints one line of JSON for each:
// microseconds per sequence and step, and allocations per step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/allocation_count.h"
#include "engine/scheduler.h"

namespace quire {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run(std::int32_t num_seqs, int num_steps, bool async) {
  SchedulerOptions options;
  options.max_num_seqs = num_seqs;
  options.max_num_batched_tokens = 8192;
  options.max_model_len = 8192;
  options.async_scheduling = async;
  options.kv.block_size = 32;
  options.kv.groups.push_back({num_seqs * 64, 0, false});
  Scheduler scheduler(options);
  const auto params = std::make_shared<const SamplingParams>();
  for (std::int32_t i = 0; i < num_seqs; ++i) {
    Request request;
    request.id = RequestId(static_cast<std::uint64_t>(i) + 1);
    std::vector<TokenId> prompt(static_cast<std::size_t>(64 + i % 64), i);
    request.prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
    request.sampling = params;
    request.stop.max_tokens = 4096;
    request.stop.eos_ids = {2, 3};
    scheduler.add(std::move(request), 0);
  }
  StepResult result;
  std::vector<SequenceUpdate> updates;
  StepPlan ahead;
  const auto step = [&](int number) {
    StepPlan plan = ahead.empty() ? scheduler.plan(number, {}) : std::move(ahead);
    ahead = {};
    if (scheduler.can_plan_ahead()) ahead = scheduler.plan(number, {});
    result.step = plan.step;
    result.rows.resize(plan.rows.size());
    for (std::size_t r = 0; r < plan.rows.size(); ++r)
      result.rows[r].token = static_cast<TokenId>(100 + (static_cast<int>(r) * 31 + number) % 1000);
    scheduler.apply(plan, result, number, updates);
    const std::size_t rows = plan.rows.size();
    scheduler.recycle(std::move(plan));
    return rows;
  };
  for (int i = 0; i < 200; ++i) step(i);
  std::vector<double> rounds;
  rounds.reserve(5);
  std::int64_t allocations = 0;
  std::size_t rows = 0;
  for (int round = 0; round < 5; ++round) {
    const std::int64_t before = allocation_count::of_all_threads;
    const double begin = seconds();
    for (int i = 0; i < num_steps; ++i) rows = step(200 + round * num_steps + i);
    rounds.push_back((seconds() - begin) / num_steps);
    allocations += allocation_count::of_all_threads - before;
  }
  std::sort(rounds.begin(), rounds.end());
  std::printf(
      "{\"sequences\": %d, \"async\": %s, \"rows\": %zu, \"us_per_step\": %.2f, "
      "\"us_per_sequence\": %.4f, "
      "\"allocations_per_step\": %.3f}\n",
      num_seqs, async ? "true" : "false", rows, rounds[2] * 1e6, rounds[2] * 1e6 / num_seqs,
      static_cast<double>(allocations) / (5.0 * num_steps));
}

}  // namespace
}  // namespace quire

int main() {
  for (const bool async : {false, true}) {
    for (const int n : {1, 16, 256}) quire::run(n, 200, async);
  }
  return 0;
}
