#include "app/scheduler_flags.h"

#include <CLI/CLI.hpp>

#include "app/flag_checks.h"

namespace quire {

void add_policy_flags(CLI::App& command, SchedulerFlags& flags) {
  command
      .add_option("--scheduling-policy", flags.policy,
                  "Who comes first: fcfs (arrival), or priority (a field of the request, smaller "
                  "first)")
      ->check(CLI::IsMember({"fcfs", "priority"}))
      ->capture_default_str();
  command
      .add_option("--long-prefill-token-threshold", flags.long_prefill_token_threshold,
                  "Most prompt tokens of one request in a step; 0: no limit of its own")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command
      .add_option(
          "--max-step-ms", flags.max_step_ms,
          "Chunks of prompts are sized so that a step with running answers takes no longer; "
          "0: no limit")
      ->check(finite_range(0.0, 1e6))
      ->capture_default_str();
  command
      .add_option("--max-step-ratio", flags.max_step_ratio,
                  "The same, as a multiple of the step's time without prompts, for one prompt; "
                  "each further one may add as much; with both, the longer time holds; 0: no limit")
      ->check(finite_range(0.0, 1e6))
      ->capture_default_str();
  command.add_flag("--async-scheduling,!--no-async-scheduling", flags.async_scheduling,
                   "Plan the next step while one is computed (default: off)");
}

void add_scheduler_flags(CLI::App& command, SchedulerFlags& flags) {
  add_policy_flags(command, flags);
  command
      .add_option("--fair-by", flags.fair_by,
                  "Who takes turns when requests wait: none, api-key, or user (a field of the "
                  "request)")
      ->check(CLI::IsMember({"none", "api-key", "user"}))
      ->capture_default_str();
  command
      .add_option("--max-num-queued-reqs", flags.max_num_queued_reqs,
                  "Waiting requests; over it: 503 with Retry-After; 0: no limit")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--max-num-queued-tokens", flags.max_num_queued_tokens,
                  "Prompt tokens of waiting requests; over it: 503 with Retry-After; 0: no limit")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--queue-timeout", flags.queue_timeout_s,
                  "Seconds that a request may wait for its start; then 503; 0: no limit")
      ->check(finite_range(0.0, 1e6))
      ->capture_default_str();
}

void set_scheduler_options(const SchedulerFlags& flags, SchedulerOptions& options) {
  options.policy =
      flags.policy == "priority" ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
  options.long_prefill_token_threshold = flags.long_prefill_token_threshold;
  options.max_step_s = flags.max_step_ms / 1000;
  options.max_step_ratio = flags.max_step_ratio;
  options.async_scheduling = flags.async_scheduling;
}

void set_queue_options(const SchedulerFlags& flags, EngineOptions& options) {
  options.max_queued_requests = flags.max_num_queued_reqs;
  options.max_queued_tokens = flags.max_num_queued_tokens;
  options.queue_timeout_s = flags.queue_timeout_s;
}

FairBy fair_by(const SchedulerFlags& flags) {
  if (flags.fair_by == "api-key") return FairBy::kApiKey;
  return flags.fair_by == "user" ? FairBy::kUser : FairBy::kNone;
}

}  // namespace quire
