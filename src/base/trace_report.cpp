// What a recording is turned into: the Chrome trace and the table of kinds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "base/trace.h"

namespace quire {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(TraceKind::kCount)> kNames = {
    "step",         "plan",         "prepare",        "forward",        "layer",     "logits",
    "sample",       "masks",        "apply",          "output",         "embed",     "norm",
    "linear",       "linear_heads", "linear_experts", "door",           "activate",  "map",
    "add_scaled",   "scale_rows",   "sigmoid_mul",    "gather_rows",    "route",     "combine",
    "rope_table",   "rope",         "store_kv",       "rope_and_store", "attention", "copy_blocks",
    "parallel_for", "wait"};

double micros(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

// Times of the spans that a row of the table stands for.
struct Total {
  std::int64_t spans = 0, own_ns = 0;
};
// Products of different sizes have rows of their own.
using Key = std::tuple<TraceKind, std::int32_t, std::int32_t>;  // kind, inputs, outputs

// Steps of about as many tokens: one table.
struct Steps {
  std::map<Key, Total> totals;
  std::int64_t steps = 0, ns = 0;
  std::int32_t fewest = INT32_MAX, most = 0;  // tokens

  void add(const Steps& other) {
    for (const auto& [key, total] : other.totals) {
      totals[key].spans += total.spans;
      totals[key].own_ns += total.own_ns;
    }
    steps += other.steps;
    ns += other.ns;
    fewest = std::min(fewest, other.most);
    most = std::max(most, other.most);
  }
};
using StepClasses = std::map<int, Steps>;  // by the binary digits of the number of tokens

// Adds one thread's spans that lie inside its steps. A span's own time is what no span inside of it
// covers.
void add_steps(const TraceThread& thread, StepClasses* classes) {
  struct Open {
    TraceEvent event;
    std::int64_t own_ns;
  };
  std::vector<Open> open;  // from the step inwards
  Steps step;
  const auto close = [&] {
    const auto& [event, own_ns] = open.back();
    const TraceLabel& label = event.label;
    Total& total = step.totals[{label.kind, label.inputs, label.outputs}];
    ++total.spans;
    total.own_ns += own_ns;
    open.pop_back();
    if (!open.empty()) return;
    (*classes)[std::bit_width(static_cast<std::uint32_t>(step.most))].add(step);
    step = {};
  };
  for (const TraceEvent& event : thread.events) {
    while (!open.empty() && open.back().event.end_ns <= event.begin_ns) close();
    if (open.empty() && event.label.kind != TraceKind::kStep) continue;
    const std::int64_t ns = event.end_ns - event.begin_ns;
    if (open.empty()) {
      ++step.steps;
      step.ns += ns;
    } else {
      open.back().own_ns -= ns;
    }
    if (event.label.kind == TraceKind::kForward) step.most = event.label.rows;
    open.push_back({event, ns});
  }
  while (!open.empty()) close();
}

std::string row_name(const Key& key) {
  const auto& [kind, inputs, outputs] = key;
  std::string name = trace_kind_name(kind);
  if (inputs > 0) name += fmt::format(" {} x {}", inputs, outputs);
  if (is_trace_phase(kind)) name += " (itself)";
  return name;
}

std::string table(const Steps& steps) {
  std::vector<std::pair<Key, Total>> rows(steps.totals.begin(), steps.totals.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.own_ns > b.second.own_ns; });
  const auto count = static_cast<double>(steps.steps);
  const auto percent = [&](std::int64_t ns) {
    return 100.0 * static_cast<double>(ns) / static_cast<double>(steps.ns);
  };
  std::string out =
      fmt::format("{} steps of {}{} tokens, {:.3f} ms each\n", steps.steps,
                  steps.fewest < steps.most ? fmt::format("{} to ", steps.fewest) : "", steps.most,
                  micros(steps.ns) / 1e3 / count);
  std::int64_t products = 0;
  for (const auto& [key, total] : rows) {
    if (is_trace_product(std::get<0>(key))) products += total.own_ns;
    fmt::format_to(std::back_inserter(out), "{:7.2f} %  {:9.1f} us in {:5.1f} spans  {}\n",
                   percent(total.own_ns), micros(total.own_ns) / count,
                   static_cast<double>(total.spans) / count, row_name(key));
  }
  fmt::format_to(std::back_inserter(out),
                 "{:7.2f} %  matrix products and attention; all else {:.2f} %\n", percent(products),
                 percent(steps.ns - products));
  return out;
}

}  // namespace

const char* trace_kind_name(TraceKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

bool is_trace_phase(TraceKind kind) { return kind <= TraceKind::kOutput; }

bool is_trace_product(TraceKind kind) {
  return kind == TraceKind::kLinear || kind == TraceKind::kLinearHeads ||
         kind == TraceKind::kLinearExperts || kind == TraceKind::kAttention;
}

std::string trace_json(const std::vector<TraceThread>& threads) {
  std::int64_t zero = 0;
  bool any = false;
  for (const TraceThread& thread : threads) {
    for (const TraceEvent& event : thread.events) {
      zero = any ? std::min(zero, event.begin_ns) : event.begin_ns;
      any = true;
    }
  }
  std::string out = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  out += R"({"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "quire"}})";
  const auto to = std::back_inserter(out);
  for (std::size_t t = 0; t < threads.size(); ++t) {
    std::string name = threads[t].name;  // ours, or the program's: no escapes, but be sure
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c < ' ' || c == '"' || c == '\\'; }, '_');
    fmt::format_to(to,
                   ",\n{{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": {}, "
                   "\"args\": {{\"name\": \"{}\", \"dropped_spans\": {}}}}}",
                   t + 1, name, threads[t].dropped);
    for (const TraceEvent& event : threads[t].events) {
      const TraceLabel& label = event.label;
      fmt::format_to(to,
                     ",\n{{\"name\": \"{}\", \"cat\": \"{}\", \"ph\": \"X\", \"pid\": 1, \"tid\": "
                     "{}, \"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": {{\"layer\": {}, \"rows\": {}",
                     trace_kind_name(label.kind),
                     is_trace_phase(label.kind)       ? "phase"
                     : label.kind == TraceKind::kWait ? "wait"
                                                      : "op",
                     t + 1, micros(event.begin_ns - zero), micros(event.end_ns - event.begin_ns),
                     label.layer, label.rows);
      if (label.inputs > 0)
        fmt::format_to(to, ", \"inputs\": {}, \"outputs\": {}", label.inputs, label.outputs);
      out += "}}";
    }
  }
  return out + "\n]}\n";
}

std::string trace_summary(const std::vector<TraceThread>& threads) {
  StepClasses classes;
  for (const TraceThread& thread : threads) add_steps(thread, &classes);
  std::string out;
  for (const auto& [digits, steps] : classes) out += table(steps);
  return out.empty() ? "no step was recorded\n" : out;
}

}  // namespace quire
