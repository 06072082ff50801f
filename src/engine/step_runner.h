// Runs planned steps on the executor, one at a time: on the engine thread, or on a thread of its
// own so that the engine thread plans the next step and hands out the last one's tokens meanwhile.
// start and wait are called by the engine thread, in turns.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine/mask_filler.h"
#include "executor/executor.h"

namespace quire {

class StepRunner {
 public:
  struct Finished {
    StepPlan plan;
    StepResult result;
    double start_s = 0, end_s = 0;
  };
  // executor outlives the runner, and is used by nobody else. own_thread: steps run there; else
  // inside wait().
  StepRunner(Executor* executor, bool own_thread);
  ~StepRunner();  // after the step that runs
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // grammars: as Scheduler::grammars gives them for the plan.
  void start(StepPlan plan, std::vector<std::shared_ptr<SequenceGrammar>> grammars);
  // Between start and wait.
  bool busy() const { return busy_; }
  // Waits for the step's end; what `finished` held before gives its memory to a later step.
  void wait(Finished& finished);

 private:
  void execute();
  std::span<const TokenMask> finish_masks();
  void run();

  Executor* executor_;
  MaskFiller masks_;
  Finished step_;      // of whose turn it is
  bool busy_ = false;  // engine thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false, stop_ = false;  // guarded
  std::thread thread_;
};

}  // namespace quire
