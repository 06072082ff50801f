// Runs the real Scheduler and KvCacheManager on a trace of requests, with a cost model in place of
// the device: simulated hours in seconds. For tuning policies and for sizing a machine; see `quire
// simulate`. Deterministic.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/scheduler.h"

namespace quire {

struct SimRequest {
  double arrival_s = 0;
  std::int32_t prompt_tokens = 1;
  std::int32_t output_tokens = 1;  // when its end token comes; the scheduler does not know
  std::int32_t max_tokens = 0;     // 0: what the context leaves
  std::uint64_t prefix_id = 0;     // requests of one prefix_id begin with the same tokens, ...
  std::int32_t prefix_tokens = 0;  // ... of which there are so many
  std::int64_t priority = 0;
  std::uint64_t client = 0;
};

// Seconds of a step: fixed, for each generating sequence, for each prompt token, and for each token
// that attention reads (a chunk of n tokens after m reads n * (m + n / 2), a generating sequence
// its whole length). Planning a step and handing out its tokens take host_s, while the device rests
// or, with async scheduling, computes. The scheduler is told what a StepCostMeter has learned.
struct SimCosts {
  double fixed_s = 0, per_sequence_s = 0, per_prompt_token_s = 0, per_context_token_s = 0;
  double host_s = 0;
};

struct SimOptions {
  SchedulerOptions scheduler;
  SimCosts costs;
};

// What happened in one step.
struct SimStep {
  double start_s = 0, step_s = 0;
  std::int32_t running = 0, waiting = 0;  // when the step was planned
  std::int32_t generating = 0, prompt_tokens = 0;
  std::int64_t preemptions = 0;  // since the start
  std::int64_t num_blocks = 0, used_blocks = 0, cached_blocks = 0;
  std::int64_t empty_positions = 0;  // of the used ones' positions (SchedulerStats)
};

struct SimReport {
  std::int64_t requests = 0, steps = 0;
  double duration_s = 0;  // from the first arrival to the last answer's end
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  std::int64_t admissions = 0, preemptions = 0;
  std::int64_t query_tokens = 0, hit_tokens = 0;
  // Of the blocks, averaged over the time in which somebody waited, once nine of ten were live.
  double saturated_s = 0, live_share = 0, live_or_cached_share = 0;
  // Positions of held blocks that no token is in: per sequence and group in blocks, and of all
  // positions that are held, averaged over time.
  double empty_blocks_per_sequence = 0, empty_share = 0;
  // From its arrival until its first token, its last one, its first step; by request.
  std::vector<double> first_token_s, request_s, queue_s;
  std::vector<double> inter_token_s;  // one entry per gap between two tokens
};

// observe may be empty.
SimReport simulate(const SimOptions& options, const std::vector<SimRequest>& trace,
                   const std::function<void(const SimStep&)>& observe = {});

// The value below which `share` of the values are (nearest rank); 0 when there are none.
double percentile(std::vector<double>& values, double share);

// Requests with lengths spread like those of the ShareGPT conversations (log-normal), arriving at
// random (Poisson).
struct SimWorkload {
  std::int32_t num_requests = 1000;
  double requests_per_s = 10;  // 0: all at once
  double prompt_mean_tokens = 220, prompt_sigma = 1.1;
  double output_mean_tokens = 200, output_sigma = 0.9;
  std::int32_t max_prompt_tokens = 1024, max_output_tokens = 1024;
  std::int32_t max_tokens = 0;     // of each request; 0: what the context leaves
  std::int32_t num_prefixes = 0;   // each request begins with one of so many texts ...
  std::int32_t prefix_tokens = 0;  // ... of so many tokens; 0: none
  std::int32_t num_clients = 1;
  std::uint64_t seed = 0;
};
std::vector<SimRequest> make_workload(const SimWorkload& workload);

}  // namespace quire
