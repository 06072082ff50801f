// The engine thread: takes messages, plans a step, has it run, applies the result, hands the
// updates to the output thread. Sleeps when there is nothing to do. Owns the Scheduler.
//
// With async scheduling a step runs on a thread of its own, and the next one is planned meanwhile
// if it can be (Scheduler::can_plan_ahead); that one starts as soon as the first has ended, before
// its tokens are looked at.
#pragma once

#include <vector>

#include "engine/engine_log.h"
#include "engine/engine_shared.h"
#include "engine/queue_rate.h"
#include "engine/scheduler.h"
#include "engine/step_runner.h"
#include "executor/executor.h"

namespace quire {

class EngineLoop {
 public:
  // All outlive the loop; observer may be null.
  EngineLoop(const SchedulerOptions& options, Executor* executor, EngineShared* shared,
             EngineObserver* observer);
  // Until the inbox is closed. Sequences that still run then are given up.
  void run();
  // Whether a sequence of num_tokens fits in the cache when it is alone. Any thread: depends on the
  // options only.
  bool could_fit(std::int32_t num_tokens) const { return scheduler_.could_fit(num_tokens); }

 private:
  bool take_messages();
  void handle(AddRequests message);
  void handle(AbortSequence message);
  void handle(FinishSequence message);
  void handle(ResetPrefixCache message);
  void handle(CheckIntegrity message);

  void step();
  void expire(double time_s);
  StepPlan plan();
  void start(StepPlan plan);
  void account(const StepRunner::Finished& finished);
  void apply(StepRunner::Finished& finished);
  void deliver(std::vector<SequenceUpdate> updates, double time_s);
  void settle();
  void publish();
  Status check_idle_integrity() const;

  EngineShared* shared_;
  EngineObserver* observer_;
  Scheduler scheduler_;
  StepRunner runner_;
  StepRunner::Finished finished_;        // the step that ended last
  std::vector<EngineMessage> messages_;  // kept for its memory
  StepCostMeter costs_;
  EngineLog log_;
  EngineStats stats_;              // this thread's copy; published under the lock
  std::size_t num_taken_ = 0;      // requests handed to the scheduler, still counted in the inbox
  std::int64_t tokens_taken_ = 0;  // of their prompts
  QueueRate queue_rate_;
  int idle_plans_ = 0;  // plans without rows, in a row, though there is work
};

}  // namespace quire
