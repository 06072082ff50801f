// The throughput line; see engine_log.h.
#include "engine/engine_log.h"

#include <fmt/format.h>

namespace quire {
namespace {

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

std::optional<std::string> EngineLog::line(const EngineStats& stats, double now_s) {
  if (!busy_) {
    // The first step's own tokens and time are outside the period; after it, both ends are at the
    // end of a step.
    busy_ = true;
    begin(stats, now_s);
    return std::nullopt;
  }
  const double elapsed_s = now_s - since_s_;
  if (elapsed_s < period_s_) return std::nullopt;
  const SchedulerStats& scheduler = stats.scheduler;
  std::string text = fmt::format(
      "engine: {:.1f} prompt tok/s, {:.1f} generation tok/s, running {}, waiting {}, KV usage "
      "{:.1f} %, prefix hit {:.1f} %",
      static_cast<double>(stats.prompt_tokens - prompt_tokens_) / elapsed_s,
      static_cast<double>(stats.generation_tokens - generation_tokens_) / elapsed_s,
      scheduler.running, scheduler.waiting,
      percent(scheduler.kv.used_blocks, scheduler.kv.num_blocks),
      percent(scheduler.kv.hit_tokens - hit_tokens_, scheduler.kv.query_tokens - query_tokens_));
  begin(stats, now_s);
  return text;
}

void EngineLog::begin(const EngineStats& stats, double now_s) {
  since_s_ = now_s;
  prompt_tokens_ = stats.prompt_tokens;
  generation_tokens_ = stats.generation_tokens;
  query_tokens_ = stats.scheduler.kv.query_tokens;
  hit_tokens_ = stats.scheduler.kv.hit_tokens;
}

}  // namespace quire
