// See step_runner.h.
#include "engine/step_runner.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/trace.h"

namespace quire {

StepRunner::StepRunner(Executor* executor, bool own_thread) : executor_(executor) {
  if (own_thread) thread_ = std::thread([this] { run(); });
}

StepRunner::~StepRunner() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StepRunner::start(StepPlan plan, std::vector<std::shared_ptr<SequenceGrammar>> grammars) {
  QUIRE_CHECK(!busy_, "a step runs already");
  busy_ = true;
  step_.plan = std::move(plan);
  step_.start_s = now_s();
  masks_.start(std::move(grammars));
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    running_ = true;
  }
  changed_.notify_all();
}

void StepRunner::wait(Finished& finished) {
  QUIRE_CHECK(busy_, "no step runs");
  if (thread_.joinable()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !running_; });
  } else {
    execute();
  }
  std::swap(finished, step_);
  busy_ = false;
}

void StepRunner::execute() {
  executor_->submit(step_.plan);
  executor_->sample(finish_masks());
  executor_->wait(step_.result);
  step_.end_s = now_s();
}

std::span<const TokenMask> StepRunner::finish_masks() {
  const TraceSpan span(TraceKind::kMasks);
  return masks_.finish();
}

void StepRunner::run() {
  pthread_setname_np(pthread_self(), "step");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return running_ || stop_; });
    if (!running_) return;
    lock.unlock();
    execute();
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace quire
