// Flags that say who is served when: policy, limits of the queue, chunks. Names are vLLM's where it
// has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "server/server_options.h"

namespace CLI {
class App;
}

namespace quire {

struct SchedulerFlags {
  std::string policy = "fcfs";
  std::string fair_by = "none";
  std::int32_t long_prefill_token_threshold = 0;
  double max_step_ms = 0, max_step_ratio = 0;
  bool async_scheduling = false;
  std::size_t max_num_queued_reqs = 0;
  std::int64_t max_num_queued_tokens = 0;
  double queue_timeout_s = 0;
};

// --scheduling-policy, --long-prefill-token-threshold, --max-step-ms, --max-step-ratio,
// --async-scheduling.
void add_policy_flags(CLI::App& command, SchedulerFlags& flags);
// Those, and --fair-by, --max-num-queued-reqs, --max-num-queued-tokens, --queue-timeout.
void add_scheduler_flags(CLI::App& command, SchedulerFlags& flags);
void set_scheduler_options(const SchedulerFlags& flags, SchedulerOptions& options);
void set_queue_options(const SchedulerFlags& flags, EngineOptions& options);
FairBy fair_by(const SchedulerFlags& flags);

}  // namespace quire
