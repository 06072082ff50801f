#include "app/sim_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>
#include <fstream>

namespace quire {
namespace {

namespace json = boost::json;

constexpr double kMaxTokens = 1 << 24;

// A number in [low, high]; `fallback` when the field is absent, unless that is NaN.
Result<double> number_of(const json::object& object, const char* name, double fallback, double low,
                         double high) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr) {
    if (!std::isnan(fallback)) return fallback;
    return make_error(ErrorCode::kInvalidArgument, "\"{}\" is missing", name);
  }
  const double number = value->is_number() ? value->to_number<double>() : std::nan("");
  if (number >= low && number <= high) return number;
  return make_error(ErrorCode::kInvalidArgument, "\"{}\" must be a number in {} to {}", name, low,
                    high);
}

}  // namespace

Result<SimRequest> parse_trace_line(const std::string& line) {
  const double required = std::nan("");
  json::error_code error;
  const json::value parsed = json::parse(line, error);
  if (error || !parsed.is_object())
    return make_error(ErrorCode::kInvalidArgument, "the line is not a JSON object");
  const json::object& object = parsed.get_object();
  SimRequest request;
  QUIRE_ASSIGN(request.arrival_s, number_of(object, "arrival", required, 0, 1e12));
  QUIRE_ASSIGN(const double prompt, number_of(object, "prompt_tokens", required, 1, kMaxTokens));
  QUIRE_ASSIGN(const double output, number_of(object, "output_tokens", required, 1, kMaxTokens));
  QUIRE_ASSIGN(const double most, number_of(object, "max_tokens", 0, 0, kMaxTokens));
  QUIRE_ASSIGN(const double prefix, number_of(object, "prefix_id", 0, 0, 9e15));
  QUIRE_ASSIGN(const double shared, number_of(object, "prefix_tokens", 0, 0, prompt));
  QUIRE_ASSIGN(const double priority, number_of(object, "priority", 0, -9e15, 9e15));
  QUIRE_ASSIGN(const double client, number_of(object, "client", 0, 0, 9e15));
  request.prompt_tokens = static_cast<std::int32_t>(prompt);
  request.output_tokens = static_cast<std::int32_t>(output);
  request.max_tokens = static_cast<std::int32_t>(most);
  request.prefix_id = static_cast<std::uint64_t>(prefix);
  request.prefix_tokens = static_cast<std::int32_t>(shared);
  request.priority = static_cast<std::int64_t>(priority);
  request.client = static_cast<std::uint64_t>(client);
  return request;
}

Result<std::vector<SimRequest>> read_trace(const std::string& path) {
  std::ifstream in(path);
  if (!in) return make_error(ErrorCode::kInvalidArgument, "--trace: cannot read {}", path);
  std::vector<SimRequest> trace;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<SimRequest> request = parse_trace_line(line);
    if (!request)
      return make_error(ErrorCode::kInvalidArgument, "{}, line {}: {}", path, number,
                        request.error().message);
    trace.push_back(*request);
  }
  if (trace.empty())
    return make_error(ErrorCode::kInvalidArgument, "--trace: {} has no requests", path);
  std::ranges::stable_sort(trace, {}, &SimRequest::arrival_s);
  return trace;
}

std::string trace_line(const SimRequest& request) {
  return fmt::format(
      "{{\"arrival\": {:.6f}, \"prompt_tokens\": {}, \"output_tokens\": {}, \"max_tokens\": {}, "
      "\"prefix_id\": {}, \"prefix_tokens\": {}, \"priority\": {}, \"client\": {}}}",
      request.arrival_s, request.prompt_tokens, request.output_tokens, request.max_tokens,
      request.prefix_id, request.prefix_tokens, request.priority, request.client);
}

std::string step_line(const SimStep& step) {
  return fmt::format(
      "{{\"start\": {:.6f}, \"seconds\": {:.6f}, \"running\": {}, \"waiting\": {}, "
      "\"generating\": {}, \"prompt_tokens\": {}, \"preemptions\": {}, \"num_blocks\": {}, "
      "\"used_blocks\": {}, \"cached_blocks\": {}}}",
      step.start_s, step.step_s, step.running, step.waiting, step.generating, step.prompt_tokens,
      step.preemptions, step.num_blocks, step.used_blocks, step.cached_blocks);
}

}  // namespace quire
