// Decides what the next step computes. One rule: scheduled = min(num_tokens - num_computed, budget left). Prefill,
// chunked prefill, decode and recompute after preemption are all that line; running sequences first, then waiting ones.
//
// Pure: time and measured costs are arguments, so a seed replays any bug. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/request.h"
#include "executor/step_plan.h"
#include "kv/kv_cache_manager.h"

namespace quire {

struct SchedulerOptions {
  std::int32_t max_num_batched_tokens = 2048;   // token budget of a step
  std::int32_t max_num_seqs = 128;
  std::int32_t max_model_len = 2048;
  KvCacheOptions kv;
};

// What a step decided about one sequence, in the order of tokens; consumed by the output thread.
struct SequenceUpdate {
  RequestId id;
  std::vector<TokenId> tokens;                       // new ones (usually one)
  std::vector<TokenLogprobs> logprobs;               // parallel to tokens, or empty
  std::vector<TokenLogprobs> prompt_logprobs;
  bool has_prompt_logprobs = false;                  // complete now
  std::optional<FinishReason> finish;
  std::optional<TokenId> stop_token;                 // stop_token_ids hit (not eos)
  std::int32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  bool first_token = false;
};

struct SchedulerStats {
  std::int32_t running = 0, waiting = 0;
  std::int64_t preemptions = 0;
  KvStats kv;
};

// Costs of past steps, for a step-time target (not used by the first policy).
struct StepCosts {
  double last_step_s = 0;
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerOptions options);
  ~Scheduler();
  // Takes the request into the waiting queue. The caller has checked that it fits (could_fit, max_model_len).
  void add(Request request, double now_s);
  // Drops it at whatever state; its blocks are free when the last submitted step that names them is applied.
  // False when unknown (finished already).
  bool abort(RequestId id);
  StepPlan plan(double now_s, const StepCosts& costs);
  // Takes the result of a planned step; returns what happened, by sequence.
  std::vector<SequenceUpdate> apply(const StepPlan& plan, const StepResult& result, double now_s);
  bool has_work() const;

  SchedulerStats stats() const;
  Status check_integrity() const;
  bool reset_prefix_cache();
  bool could_fit(std::int32_t num_tokens) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
