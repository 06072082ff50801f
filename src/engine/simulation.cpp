#include "engine/simulation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr TokenId kEndToken = 1, kFirstText = 2;

TokenId text_token(std::uint64_t text, std::int32_t position) {
  const std::uint64_t hash =
      (text * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(position)) * 0xbf58476d1ce4e5b9u;
  return kFirstText + static_cast<TokenId>((hash >> 33) % 100000);
}

class Simulation {
 public:
  Simulation(const SimOptions& options, const std::vector<SimRequest>& trace)
      : options_(options), trace_(trace), scheduler_(options.scheduler) {
    for (const SimRequest& request : trace) states_.push_back({request.arrival_s, 0});
    for (auto* seconds : {&report_.first_token_s, &report_.request_s, &report_.queue_s})
      seconds->resize(trace.size());
    slots_.resize(static_cast<std::size_t>(options.scheduler.max_num_seqs));
  }

  SimReport run(const std::function<void(const SimStep&)>& observe) {
    observe_ = &observe;
    now_s_ = trace_.empty() ? 0 : trace_.front().arrival_s;
    const double begin_s = now_s_;
    while (next_ < trace_.size() || scheduler_.has_work() || running_) {
      if (!scheduler_.has_work() && !running_) now_s_ = std::max(now_s_, trace_[next_].arrival_s);
      for (; next_ < trace_.size() && trace_[next_].arrival_s <= now_s_; ++next_) add(next_);
      step();
    }
    finish_report(now_s_ - begin_s);
    return std::move(report_);
  }

 private:
  struct State {
    double arrival_s, last_token_s;
  };
  struct Running {  // on the device
    StepPlan plan;
    StepResult result;
    SimStep step;
  };

  // As EngineLoop::step: the next step is planned when this one has begun, if it can be, and
  // starts when this one ends.
  void step() {
    if (!running_) start(scheduler_.plan(now_s_, costs_.costs()));
    std::optional<StepPlan> ahead;
    if (scheduler_.can_plan_ahead()) ahead = scheduler_.plan(now_s_, costs_.costs());
    const Running done = *std::exchange(running_, std::nullopt);
    const double host_s = options_.costs.host_s;
    now_s_ += ahead ? std::max(done.step.step_s, host_s) : done.step.step_s + host_s;
    costs_.observe(work_of(done.plan), done.step.step_s);
    if (ahead && !ahead->rows.empty()) start(std::move(*ahead));
    for (const SequenceUpdate& update : scheduler_.apply(done.plan, done.result, now_s_))
      take(update);
  }

  void start(StepPlan plan) {
    QUIRE_CHECK(!plan.rows.empty(), "the scheduler has work but plans nothing");
    for (const auto& added : plan.added) {
      slots_[static_cast<std::size_t>(added.slot.value)] = by_prompt_.at(added.prompt.get());
    }
    const SimStep step = describe(plan);
    if (*observe_) (*observe_)(step);
    account(step);
    StepResult result = draw(plan);
    running_ = Running{std::move(plan), std::move(result), step};
  }

  void add(std::size_t index) {
    const SimRequest& from = trace_[index];
    std::vector<TokenId> prompt(static_cast<std::size_t>(from.prompt_tokens));
    for (std::int32_t i = 0; i < from.prompt_tokens; ++i) {
      const bool shared = i < from.prefix_tokens;
      prompt[static_cast<std::size_t>(i)] =
          text_token(shared ? from.prefix_id : ~std::uint64_t{index}, i);
    }
    Request request;
    request.id = RequestId(index);
    request.prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
    request.sampling = sampling_;
    const std::int32_t left = options_.scheduler.max_model_len - from.prompt_tokens;
    request.stop.max_tokens = from.max_tokens > 0 ? std::min(from.max_tokens, left) : left;
    request.stop.eos_ids = {kEndToken};
    request.priority = from.priority;
    request.client = from.client;
    request.arrival_s = from.arrival_s;
    by_prompt_[request.prompt.get()] = index;
    report_.prompt_tokens += from.prompt_tokens;
    scheduler_.add(std::move(request), from.arrival_s);
  }

  SimStep describe(const StepPlan& plan) {
    SimStep step;
    const StepWork work = work_of(plan);
    double context_tokens = work.prompt_keys;
    for (const StepPlan::Row& row : plan.rows) {
      if (row.num_tokens == 1 && row.sample) context_tokens += row.start_pos + 1;
    }
    const SchedulerStats stats = scheduler_.stats();
    const SimCosts& costs = options_.costs;
    step.generating = work.generating;
    step.prompt_tokens = work.prompt_tokens;
    step.start_s = now_s_;
    step.step_s = costs.fixed_s + work.generating * costs.per_sequence_s +
                  work.prompt_tokens * costs.per_prompt_token_s +
                  context_tokens * costs.per_context_token_s;
    step.running = stats.running;
    step.waiting = stats.waiting;
    step.preemptions = stats.preemptions;
    step.num_blocks = stats.kv.num_blocks;
    step.used_blocks = stats.kv.used_blocks;
    step.cached_blocks = stats.kv.cached_free_blocks;
    step.empty_positions = stats.empty_positions;
    return step;
  }

  void account(const SimStep& step) {
    ++report_.steps;
    const KvCacheOptions& kv = options_.scheduler.kv;
    if (step.running > 0 && !kv.groups.empty()) {
      const auto empty_blocks =
          static_cast<double>(step.empty_positions) / static_cast<double>(kv.block_size);
      held_s_ += step.step_s;
      report_.empty_blocks_per_sequence += step.step_s * empty_blocks /
                                           static_cast<double>(step.running) /
                                           static_cast<double>(kv.groups.size());
      report_.empty_share += step.step_s * empty_blocks / static_cast<double>(step.used_blocks);
    }
    if (step.waiting == 0 || step.num_blocks == 0) return;
    filled_ = filled_ || 10 * step.used_blocks >= 9 * step.num_blocks;
    if (!filled_) return;
    const auto blocks = static_cast<double>(step.num_blocks);
    report_.saturated_s += step.step_s;
    report_.live_share += step.step_s * static_cast<double>(step.used_blocks) / blocks;
    report_.live_or_cached_share +=
        step.step_s * static_cast<double>(step.used_blocks + step.cached_blocks) / blocks;
  }

  // Any token, but the end token where the trace says so.
  StepResult draw(const StepPlan& plan) const {
    StepResult result;
    result.step = plan.step;
    result.rows.resize(plan.rows.size());
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      const StepPlan::Row& row = plan.rows[r];
      const std::size_t index = slots_[static_cast<std::size_t>(row.slot.value)];
      const SimRequest& request = trace_[index];
      const std::int32_t number = row.start_pos + row.num_tokens + 1 - request.prompt_tokens;
      result.rows[r].token =
          number >= request.output_tokens
              ? kEndToken
              : text_token(~std::uint64_t{index}, row.start_pos + row.num_tokens);
    }
    return result;
  }

  void take(const SequenceUpdate& update) {
    State& state = states_[update.id.value];
    ++report_.output_tokens;
    if (update.first_token) {
      report_.first_token_s[update.id.value] = now_s_ - state.arrival_s;
      report_.queue_s[update.id.value] = update.scheduled_s - state.arrival_s;
    } else {
      report_.inter_token_s.push_back(now_s_ - state.last_token_s);
    }
    state.last_token_s = now_s_;
    if (update.finish) report_.request_s[update.id.value] = now_s_ - state.arrival_s;
  }

  void finish_report(double duration_s) {
    const SchedulerStats stats = scheduler_.stats();
    report_.requests = static_cast<std::int64_t>(trace_.size());
    report_.duration_s = duration_s;
    report_.admissions = stats.admissions;
    report_.preemptions = stats.preemptions;
    report_.query_tokens = stats.kv.query_tokens;
    report_.hit_tokens = stats.kv.hit_tokens;
    if (held_s_ > 0) {
      report_.empty_blocks_per_sequence /= held_s_;
      report_.empty_share /= held_s_;
    }
    if (report_.saturated_s > 0) {
      report_.live_share /= report_.saturated_s;
      report_.live_or_cached_share /= report_.saturated_s;
    }
  }

  const SimOptions& options_;
  const std::vector<SimRequest>& trace_;
  Scheduler scheduler_;
  StepCostMeter costs_;
  const std::function<void(const SimStep&)>* observe_ = nullptr;
  double now_s_ = 0;
  std::size_t next_ = 0;  // of trace_, to arrive
  std::optional<Running> running_;
  const std::shared_ptr<const SamplingParams> sampling_ = std::make_shared<SamplingParams>();
  std::vector<State> states_;       // by request
  std::vector<std::size_t> slots_;  // which request is in the executor's slot
  std::unordered_map<const std::vector<TokenId>*, std::size_t> by_prompt_;
  bool filled_ = false;
  double held_s_ = 0;  // time in which somebody held blocks
  SimReport report_;
};

}  // namespace

SimReport simulate(const SimOptions& options, const std::vector<SimRequest>& trace,
                   const std::function<void(const SimStep&)>& observe) {
  return Simulation(options, trace).run(observe);
}

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(
      std::clamp(std::ceil(share * static_cast<double>(values.size())) - 1, 0.0,
                 static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<std::size_t>(rank)];
}

std::vector<SimRequest> make_workload(const SimWorkload& workload) {
  std::mt19937_64 random(workload.seed);
  std::normal_distribution<double> normal;
  const auto length = [&](double mean, double sigma, std::int32_t most) {
    const double tokens = mean * std::exp(sigma * normal(random) - sigma * sigma / 2);
    return static_cast<std::int32_t>(std::clamp(tokens, 1.0, static_cast<double>(most)));
  };
  std::exponential_distribution<double> gap(workload.requests_per_s > 0 ? workload.requests_per_s
                                                                        : 1);
  std::vector<SimRequest> trace(static_cast<std::size_t>(workload.num_requests));
  double now_s = 0;
  for (SimRequest& request : trace) {
    request.arrival_s = now_s;
    if (workload.requests_per_s > 0) now_s += gap(random);
    request.prompt_tokens =
        length(workload.prompt_mean_tokens, workload.prompt_sigma, workload.max_prompt_tokens);
    request.output_tokens =
        length(workload.output_mean_tokens, workload.output_sigma, workload.max_output_tokens);
    request.max_tokens = workload.max_tokens;
    if (workload.num_prefixes > 0) {
      request.prefix_id = random() % static_cast<std::uint64_t>(workload.num_prefixes);
      request.prefix_tokens = workload.prefix_tokens;
      request.prompt_tokens += workload.prefix_tokens;
    }
    request.client = random() % static_cast<std::uint64_t>(std::max(1, workload.num_clients));
  }
  return trace;
}

}  // namespace quire
