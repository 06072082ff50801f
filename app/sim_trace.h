// Traces of requests and of simulated steps, as lines of JSON; for `quire simulate`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/simulation.h"

namespace quire {

// A line is {"arrival": seconds, "prompt_tokens": n, "output_tokens": n} and may have "max_tokens",
// "prefix_id", "prefix_tokens", "priority" and "client"; empty lines are skipped. Sorted by
// arrival. Errors name the line.
Result<std::vector<SimRequest>> read_trace(const std::string& path);
Result<SimRequest> parse_trace_line(const std::string& line);
std::string trace_line(const SimRequest& request);  // without the end of line
std::string step_line(const SimStep& step);

}  // namespace quire
