// The engine as the server sees it: requests in, deltas out through each request's channel. Owns
// the engine thread (Scheduler, executor) and the output thread (detokenizer, stop strings). All
// methods are thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "executor/executor.h"
#include "text/tokenizer.h"

namespace quire {

struct EngineOptions {
  SchedulerOptions scheduler;
  // Limits of the queue; 0: none. Over them, submit gives kUnavailable with the time after which
  // there will be room.
  std::size_t max_queued_requests = 0;
  std::int64_t max_queued_tokens = 0;  // of prompts that wait
  double queue_timeout_s = 0;          // a request may wait so long for its start; 0: for ever
};

// Counters since the start and current gauges; copied under a lock.
struct EngineStats {
  SchedulerStats scheduler;
  std::int64_t prompt_tokens = 0, generation_tokens = 0;
  std::int64_t steps = 0;
  std::int64_t rejected_by_requests = 0, rejected_by_tokens = 0;  // the queue was full
  double starts_per_s = 1;                                        // of requests, while some wait
  double last_step_end_s = 0;  // now_s(); health sees progress by it
  bool step_in_flight = false;
  double step_started_s = 0;
};

// Facts about a finished (or first-token) request, for metrics. Called on the output thread.
struct RequestTimings {
  std::int32_t prompt_tokens = 0, generation_tokens = 0, max_tokens = 0, cached_tokens = 0;
  double arrival_s = 0, scheduled_s = 0, first_token_s = 0, finished_s = 0;
  FinishReason reason = FinishReason::kStop;
};
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void on_first_token(double ttft_s) = 0;
  virtual void on_inter_token(double gap_s) = 0;
  virtual void on_finished(const RequestTimings& timings) = 0;
  virtual void on_step(std::int32_t num_tokens, double step_s) = 0;  // engine thread
};

class Engine {
 public:
  // The executor has been warmed up. tokenizer and observer outlive the engine; observer may be
  // null.
  Engine(EngineOptions options, std::unique_ptr<Executor> executor, const Tokenizer* tokenizer,
         EngineObserver* observer);
  ~Engine();  // aborts what runs

  RequestId next_id();
  // kUnavailable when draining or the queue is full; kContextLength / kInvalidArgument when it
  // could never fit the cache.
  Status submit(Request request);
  // All of them, or none: they come to the scheduler together, so that choices of one prompt find
  // each other and requests with one prefix share its computation.
  Status submit(std::vector<Request> requests);
  // Idempotent, at any moment after submit. The last delta (kAbort) goes out at once, also while a
  // step runs; the sequence ends before the next step.
  void abort(RequestId id);
  EngineStats stats() const;
  // Stops taking requests and waits until what runs is done or the limit passes (then aborts the
  // rest). True: all done.
  bool drain(double timeout_s);
  bool reset_prefix_cache();
  const Executor::Capacity& capacity() const;
  // All blocks free and every invariant holds (idle engine): for tests.
  Status check_integrity();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
