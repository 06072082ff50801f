// The engine thread; see engine_loop.h.
#include "engine/engine_loop.h"

#include <pthread.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"

namespace quire {

EngineLoop::EngineLoop(const SchedulerOptions& options, Executor* executor, EngineShared* shared,
                       EngineObserver* observer)
    : shared_(shared),
      observer_(observer),
      scheduler_(options),
      runner_(executor, options.async_scheduling) {
  for (int i = 0; i < 4; ++i) {  // as many as are ever on their way
    std::vector<SequenceUpdate> updates;
    updates.reserve(static_cast<std::size_t>(options.max_num_seqs));
    shared_->spare_updates.give(std::move(updates));
  }
}

void EngineLoop::run() {
  pthread_setname_np(pthread_self(), "engine");
  publish();
  while (take_messages()) {
    if (scheduler_.has_work() || runner_.busy()) step();
  }
}

// Takes what is there; sleeps only when there is nothing to compute. False: the inbox is closed.
bool EngineLoop::take_messages() {
  const bool closed = shared_->inbox.closed();  // asked first: then this is all that will ever come
  const bool idle = !scheduler_.has_work() && !runner_.busy();
  if (idle) log_.idle();
  idle ? shared_->inbox.wait(messages_) : shared_->inbox.take(messages_);
  for (EngineMessage& message : messages_) {
    std::visit([this](auto& m) { handle(std::move(m)); }, message);
  }
  if (!messages_.empty()) publish();
  return !closed;
}

void EngineLoop::handle(AddRequests message) {
  num_taken_ += message.requests.size();
  for (Request& request : message.requests) {
    tokens_taken_ += static_cast<std::int64_t>(request.prompt->size());
    scheduler_.add(std::move(request), now_s());
  }
}
void EngineLoop::handle(AbortSequence message) { scheduler_.abort(message.id); }
void EngineLoop::handle(FinishSequence message) { scheduler_.finish(message.id); }
void EngineLoop::handle(ResetPrefixCache message) {
  if (!scheduler_.has_work()) settle();
  message.done.set_value(scheduler_.reset_prefix_cache());
}
void EngineLoop::handle(CheckIntegrity message) {
  if (!scheduler_.has_work()) settle();
  // Who has got the answer finds the statistics up to date, also those of the inbox.
  publish();
  message.done.set_value(check_idle_integrity());
}

// One step of the engine, from what is known to what was drawn.
void EngineLoop::step() {
  const TraceSpan span(TraceKind::kStep);
  expire(now_s());
  if (!runner_.busy()) {
    if (!scheduler_.has_work()) return publish();
    StepPlan next = plan();
    if (next.empty()) return;
    start(std::move(next));
  }
  StepPlan ahead;
  if (scheduler_.can_plan_ahead()) ahead = plan();  // while the step runs
  runner_.wait(finished_);
  account(finished_);
  if (!ahead.empty()) start(std::move(ahead));
  apply(finished_);
}

StepPlan EngineLoop::plan() {
  const TraceSpan span(TraceKind::kPlan);
  StepPlan plan = scheduler_.plan(now_s(), costs_.costs());
  idle_plans_ = plan.rows.empty() && !runner_.busy() ? idle_plans_ + 1 : 0;
  QUIRE_CHECK(idle_plans_ < 1000, "the scheduler has work but plans nothing");
  return plan;
}

void EngineLoop::start(StepPlan plan) {
  stats_.step_in_flight = true;
  stats_.step_started_s = now_s();
  publish();
  auto grammars = scheduler_.grammars(plan);
  runner_.start(std::move(plan), std::move(grammars));
}

void EngineLoop::account(const StepRunner::Finished& finished) {
  const StepPlan& plan = finished.plan;
  const double step_s = finished.end_s - finished.start_s;
  stats_.step_in_flight = false;
  stats_.last_step_end_s = finished.end_s;
  stats_.steps += plan.rows.empty() ? 0 : 1;
  costs_.observe(work_of(plan), step_s);
  if (observer_ != nullptr && !plan.rows.empty()) observer_->on_step(plan.num_tokens(), step_s);
}

void EngineLoop::apply(StepRunner::Finished& finished) {
  const double time_s = now_s();
  std::vector<SequenceUpdate> updates = shared_->spare_updates.take();
  {
    const TraceSpan span(TraceKind::kApply, static_cast<std::int64_t>(finished.plan.rows.size()));
    scheduler_.apply(finished.plan, finished.result, time_s, updates);
  }
#ifdef QUIRE_DEBUG_CHECKS
  const Status status = scheduler_.check_integrity();
  QUIRE_CHECK(status.has_value(), "after step {}: {}", finished.plan.step, status.error().message);
#endif
  deliver(std::move(updates), time_s);
  scheduler_.recycle(std::move(finished.plan));
}

// Ends the step that runs, which nobody waits for any more.
void EngineLoop::settle() {
  if (!runner_.busy()) return;
  runner_.wait(finished_);
  account(finished_);
  apply(finished_);
}

// Requests whose time has passed end with an error that says what to change.
void EngineLoop::expire(double time_s) {
  for (const ExpiredRequest& expired : scheduler_.expire(time_s)) {
    Error error;
    if (expired.in_queue) {
      error.code = ErrorCode::kUnavailable;
      error.message = fmt::format(
          "the request has waited for {:.1f} s, longer than this server's --queue-timeout; try "
          "again later",
          expired.waited_s);
      error.retry_after_s =
          static_cast<double>(scheduler_.stats().waiting + 1) / stats_.starts_per_s;
    } else {
      error.code = ErrorCode::kTimeout;
      error.param = "timeout";
      error.message = fmt::format(
          "the request's `timeout` has passed after {:.1f} s, with {} tokens generated; raise it "
          "or lower max_tokens",
          expired.waited_s, expired.num_generated);
    }
    shared_->outbox.push(FailOutput{expired.id, std::move(error)});
  }
}

void EngineLoop::deliver(std::vector<SequenceUpdate> updates, double time_s) {
  const TraceSpan span(TraceKind::kOutput, static_cast<std::int64_t>(updates.size()));
  for (const SequenceUpdate& update : updates) {
    const bool prompt_done = update.first_token || update.tokens.empty();
    if (prompt_done && !update.forked) stats_.prompt_tokens += update.prompt_tokens;
    stats_.generation_tokens += static_cast<std::int64_t>(update.tokens.size());
  }
  // Statistics first: who has got an answer finds it counted.
  publish();
  if (updates.empty()) {
    shared_->spare_updates.give(std::move(updates));
  } else {
    shared_->outbox.push(StepOutput{std::move(updates), time_s});
  }
  if (const auto line = log_.line(stats_, time_s)) log_info("{}", *line);
}

// Shows this thread's statistics to the others.
void EngineLoop::publish() {
  stats_.scheduler = scheduler_.stats();
  queue_rate_.observe(now_s(), stats_.scheduler.started, stats_.scheduler.waiting > 0);
  stats_.starts_per_s = queue_rate_.per_s();
  std::lock_guard lock(shared_->mutex);
  shared_->stats = stats_;
  shared_->num_in_inbox -= std::exchange(num_taken_, 0);
  shared_->tokens_in_inbox -= std::exchange(tokens_taken_, 0);
}

Status EngineLoop::check_idle_integrity() const {
  QUIRE_TRY(scheduler_.check_integrity());
  const SchedulerStats stats = scheduler_.stats();
  if (!scheduler_.has_work() && stats.kv.used_blocks != 0) {
    return make_error(ErrorCode::kInternal, "{} KV blocks are held though no sequence is there",
                      stats.kv.used_blocks);
  }
  return {};
}

}  // namespace quire
