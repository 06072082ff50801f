// `quire simulate`: the scheduler and the KV cache as they are, on a trace or a made-up load, with
// a cost model in place of the device. Says what a machine of these costs would give.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "app/commands.h"
#include "app/flag_checks.h"
#include "app/scheduler_flags.h"
#include "app/sim_trace.h"
#include "base/clock.h"
#include "engine/simulation.h"

namespace quire {
namespace {

struct SimulateFlags {
  std::string trace, write_trace, steps_file;
  SimWorkload workload;
  SchedulerFlags scheduling;
  std::int32_t num_blocks = 2048, block_size = 32, window = 0;
  std::int32_t max_num_seqs = 128, max_num_batched_tokens = 512, max_model_len = 4096;
  bool enable_prefix_caching = true, json = false;
  double step_ms = 4, sequence_us = 600, prompt_token_us = 500, context_token_ns = 60, host_us = 0;
};

SimOptions options_of(const SimulateFlags& flags) {
  SimOptions options;
  SchedulerOptions& scheduler = options.scheduler;
  set_scheduler_options(flags.scheduling, scheduler);
  scheduler.max_num_seqs = flags.max_num_seqs;
  scheduler.max_num_batched_tokens = flags.max_num_batched_tokens;
  scheduler.max_model_len = flags.max_model_len;
  scheduler.kv.block_size = flags.block_size;
  scheduler.kv.enable_prefix_caching = flags.enable_prefix_caching;
  scheduler.kv.groups.push_back({flags.num_blocks, 0, false});
  if (flags.window > 0) scheduler.kv.groups.push_back({flags.num_blocks, flags.window, false});
  options.costs = {flags.step_ms / 1e3, flags.sequence_us / 1e6, flags.prompt_token_us / 1e6,
                   flags.context_token_ns / 1e9, flags.host_us / 1e6};
  return options;
}

Status check_trace(const std::vector<SimRequest>& trace, const SimOptions& options) {
  const Scheduler scheduler(options.scheduler);
  for (const SimRequest& request : trace) {
    if (request.prompt_tokens < options.scheduler.max_model_len &&
        scheduler.could_fit(request.prompt_tokens + 1))
      continue;
    return make_error(
        ErrorCode::kInvalidArgument,
        "a prompt of {} tokens does not fit --max-model-len {} or --num-gpu-blocks {}",
        request.prompt_tokens, options.scheduler.max_model_len,
        options.scheduler.kv.groups.front().num_blocks);
  }
  return {};
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

struct Quantiles {
  const char* name;
  double mean_ms, p50_ms, p90_ms, p99_ms;
};

Quantiles quantiles(const char* name, std::vector<double>& seconds) {
  return {name, mean(seconds) * 1e3, percentile(seconds, 0.5) * 1e3, percentile(seconds, 0.9) * 1e3,
          percentile(seconds, 0.99) * 1e3};
}

void print_text(const SimReport& r, const std::vector<Quantiles>& latencies, double wall_s) {
  const double s = r.duration_s;
  std::printf("requests            %lld in %.1f s (simulated in %.2f s, %lld steps)\n",
              static_cast<long long>(r.requests), s, wall_s, static_cast<long long>(r.steps));
  std::printf("throughput          %.2f requests/s, %.1f output tok/s, %.1f total tok/s\n",
              ratio(static_cast<double>(r.requests), s),
              ratio(static_cast<double>(r.output_tokens), s),
              ratio(static_cast<double>(r.prompt_tokens + r.output_tokens), s));
  for (const Quantiles& q : latencies) {
    std::printf("%-18s  mean %.1f, p50 %.1f, p90 %.1f, p99 %.1f ms\n", q.name, q.mean_ms, q.p50_ms,
                q.p90_ms, q.p99_ms);
  }
  std::printf("preemptions         %lld, %.2f %% of %lld admissions\n",
              static_cast<long long>(r.preemptions),
              100 * ratio(static_cast<double>(r.preemptions), static_cast<double>(r.admissions)),
              static_cast<long long>(r.admissions));
  std::printf("prefix cache        %.1f %% of %lld prompt tokens hit\n",
              100 * ratio(static_cast<double>(r.hit_tokens), static_cast<double>(r.query_tokens)),
              static_cast<long long>(r.query_tokens));
  std::printf("empty positions     %.2f blocks per sequence and group, %.1f %% of what is held\n",
              r.empty_blocks_per_sequence, 100 * r.empty_share);
  std::printf("blocks while queued %.1f %% live, %.1f %% live or cached (over %.1f s)\n",
              100 * r.live_share, 100 * r.live_or_cached_share, r.saturated_s);
}

void print_json(const SimReport& r, const std::vector<Quantiles>& latencies, double wall_s) {
  std::printf("{\"requests\": %lld, \"duration_s\": %.6f, \"steps\": %lld, \"wall_s\": %.3f",
              static_cast<long long>(r.requests), r.duration_s, static_cast<long long>(r.steps),
              wall_s);
  std::printf(", \"prompt_tokens\": %lld, \"output_tokens\": %lld, \"output_throughput\": %.3f",
              static_cast<long long>(r.prompt_tokens), static_cast<long long>(r.output_tokens),
              ratio(static_cast<double>(r.output_tokens), r.duration_s));
  for (const Quantiles& q : latencies) {
    std::string name = q.name;
    std::ranges::replace(name, ' ', '_');
    std::printf(", \"%s_ms\": {\"mean\": %.3f, \"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f}",
                name.c_str(), q.mean_ms, q.p50_ms, q.p90_ms, q.p99_ms);
  }
  std::printf(", \"admissions\": %lld, \"preemptions\": %lld, \"hit_rate\": %.4f",
              static_cast<long long>(r.admissions), static_cast<long long>(r.preemptions),
              ratio(static_cast<double>(r.hit_tokens), static_cast<double>(r.query_tokens)));
  std::printf(", \"empty_blocks_per_sequence\": %.4f, \"empty_share\": %.4f",
              r.empty_blocks_per_sequence, r.empty_share);
  std::printf(", \"saturated_s\": %.3f, \"live_share\": %.4f, \"live_or_cached_share\": %.4f}\n",
              r.saturated_s, r.live_share, r.live_or_cached_share);
}

int run_simulate(const SimulateFlags& flags) {
  Result<std::vector<SimRequest>> trace =
      flags.trace.empty() ? Result<std::vector<SimRequest>>(make_workload(flags.workload))
                          : read_trace(flags.trace);
  if (!trace) return fail(trace.error());
  const SimOptions options = options_of(flags);
  if (const Status fits = check_trace(*trace, options); !fits) return fail(fits.error());
  if (!flags.write_trace.empty()) {
    std::ofstream out(flags.write_trace);
    for (const SimRequest& request : *trace) out << trace_line(request) << '\n';
    if (!out.flush())
      return fail({ErrorCode::kInvalidArgument,
                   fmt::format("--write-trace: cannot write {}", flags.write_trace),
                   {}});
  }
  std::ofstream steps;
  if (!flags.steps_file.empty()) steps.open(flags.steps_file);
  const double begin_s = now_s();
  SimReport report = simulate(options, *trace, [&](const SimStep& step) {
    if (steps.is_open()) steps << step_line(step) << '\n';
  });
  const double wall_s = now_s() - begin_s;
  if (!flags.steps_file.empty() && !steps.flush())
    return fail({ErrorCode::kInvalidArgument,
                 fmt::format("--steps: cannot write {}", flags.steps_file),
                 {}});
  const std::vector<Quantiles> latencies{quantiles("queue time", report.queue_s),
                                         quantiles("time to first token", report.first_token_s),
                                         quantiles("inter-token latency", report.inter_token_s),
                                         quantiles("request latency", report.request_s)};
  (flags.json ? print_json : print_text)(report, latencies, wall_s);
  return 0;
}

void add_load_flags(CLI::App& command, SimulateFlags& flags) {
  SimWorkload& load = flags.workload;
  command.add_option(
      "--trace", flags.trace,
      "Requests to replay, a JSON object a line; else they are made up, with lengths "
      "like ShareGPT's");
  command.add_option("--write-trace", flags.write_trace, "File for the requests, as --trace reads");
  command.add_option("--steps", flags.steps_file, "File for what happened, a JSON object a step");
  command.add_flag("--json", flags.json, "Print one line of JSON");
  command.add_option("--num-prompts", load.num_requests, "Requests to make up")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  command.add_option("--request-rate", load.requests_per_s, "Arrivals per second; 0: all at once")
      ->check(finite_range(0.0, 1e9))
      ->capture_default_str();
  command.add_option("--input-len", load.prompt_mean_tokens, "Mean prompt tokens")
      ->check(finite_range(1.0, 1e6))
      ->capture_default_str();
  command.add_option("--output-len", load.output_mean_tokens, "Mean output tokens")
      ->check(finite_range(1.0, 1e6))
      ->capture_default_str();
  command.add_option("--max-tokens", load.max_tokens, "max_tokens of requests; 0: none")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  command.add_option("--num-prefixes", load.num_prefixes, "Texts that prompts begin with; 0: none")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option("--prefix-len", load.prefix_tokens, "Tokens of these")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option("--num-clients", load.num_clients, "Clients that take turns")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--seed", load.seed, "Of the made-up requests")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
}

void add_machine_flags(CLI::App& command, SimulateFlags& flags) {
  command.add_option("--num-gpu-blocks", flags.num_blocks, "KV blocks")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command.add_option("--block-size", flags.block_size, "Tokens of a KV block")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command
      .add_option("--sliding-window", flags.window, "A second KV group with this window; 0: none")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_option("--max-num-seqs", flags.max_num_seqs, "Sequences that run at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option("--max-num-batched-tokens", flags.max_num_batched_tokens,
                  "Token budget of a step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--max-model-len", flags.max_model_len, "Longest prompt + output")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  command.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching",
                   flags.enable_prefix_caching, "Share equal prompt beginnings (default: on)");
  command.add_option("--step-ms", flags.step_ms, "Cost of a step")
      ->check(finite_range(0.000001, 1e6))
      ->capture_default_str();
  command.add_option("--sequence-us", flags.sequence_us, "Cost of a sequence that generates")
      ->check(finite_range(0.0, 1e9))
      ->capture_default_str();
  command.add_option("--prompt-token-us", flags.prompt_token_us, "Cost of a prompt token")
      ->check(finite_range(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--context-token-ns", flags.context_token_ns,
                  "Cost of a token that attention reads")
      ->check(finite_range(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--host-us", flags.host_us,
                  "Planning a step and handing out its tokens; beside the step with "
                  "--async-scheduling")
      ->check(finite_range(0.0, 1e9))
      ->capture_default_str();
}

}  // namespace

Command add_simulate(CLI::App& command) {
  auto flags = std::make_shared<SimulateFlags>();
  add_load_flags(command, *flags);
  add_machine_flags(command, *flags);
  add_policy_flags(command, flags->scheduling);
  return [flags] { return run_simulate(*flags); };
}

}  // namespace quire
