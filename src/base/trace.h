// What every thread does when, for `--profile`: spans that nest, in a ring per thread. One record
// for the process, as with the log. Off, a span costs one load and a branch; on, two reads of the
// clock and 40 bytes. A thread's ring is made at its first span, and nothing is allocated after
// that.
//
//   const TraceSpan span(TraceKind::kNorm, rows);      from here to the end of the scope
//
// Any thread may open spans; a span ends on the thread that began it, the last begun first.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

enum class TraceKind : std::uint8_t {
  // Phases of a step.
  kStep,
  kPlan,
  kPrepare,  // slots, copies of blocks and states, the model's input
  kForward,
  kLayer,
  kLogits,
  kSample,
  kMasks,  // waiting for grammar masks
  kApply,
  kOutput,
  // Operations of the backend.
  kEmbed,
  kNorm,
  kLinear,
  kLinearHeads,
  kLinearExperts,
  kDoor,  // activations turned into what a matrix product takes
  kActivate,
  kMap,
  kAddScaled,
  kScaleRows,
  kSigmoidMul,
  kGatherRows,
  kRoute,
  kCombine,
  kRopeTable,
  kRope,
  kStoreKv,
  kRopeAndStore,
  kAttention,
  kCopyBlocks,
  kParallelFor,
  // Waiting for other kernel threads.
  kWait,
  kCount,
};
const char* trace_kind_name(TraceKind kind);  // "rope_and_store"
// Phases are made of other spans; matrix products and attention are what a step is there for.
bool is_trace_phase(TraceKind kind);
bool is_trace_product(TraceKind kind);

struct TraceLabel {
  TraceKind kind;
  std::int16_t layer;            // -1: outside of layers
  std::int32_t rows;             // 0: does not apply
  std::int32_t inputs, outputs;  // of a matrix product; else 0
};
struct TraceEvent {
  std::int64_t begin_ns, end_ns;  // monotonic
  TraceLabel label;
};
struct TraceThread {
  std::string name;
  std::vector<TraceEvent> events;  // by begin; of equal ones the outer first
  std::uint64_t dropped = 0;       // older ones that the ring no longer holds
};

// Forgets what is recorded and records from now on, for `path`.
void start_trace(std::string path);
// Stops, writes the record to that path as a Chrome trace (chrome://tracing, Perfetto) and prints
// trace_summary() to standard error. Does nothing when nothing is recorded. Any thread, also while
// others work; the first of several callers writes.
Status finish_trace();
// Stops; what was recorded, one entry for each thread that has events.
std::vector<TraceThread> take_trace();

// {"traceEvents": [...], ...}
std::string trace_json(const std::vector<TraceThread>& threads);
// Where the time of steps goes, by kind of span, each without what is nested in it; a table for
// each size of steps (1, 2-3, 4-7, 8-15 … tokens).
std::string trace_summary(const std::vector<TraceThread>& threads);

namespace trace_detail {
inline std::atomic<bool> on{false};
}
inline bool tracing() { return trace_detail::on.load(std::memory_order_relaxed); }

// Of the innermost span that is open on this thread, for handing work to other threads; kind kCount
// where there is none, which opens no span.
TraceLabel current_trace_label();

class TraceSpan {
 public:
  explicit TraceSpan(TraceKind kind, std::int64_t rows = 0, std::int64_t inputs = 0,
                     std::int64_t outputs = 0) {
    if (tracing()) [[unlikely]]
      begin({kind, -1, static_cast<std::int32_t>(rows), static_cast<std::int32_t>(inputs),
             static_cast<std::int32_t>(outputs)});
  }
  // Spans inside take its layer.
  static TraceSpan of_layer(std::size_t layer) {
    return TraceSpan(TraceLabel{TraceKind::kLayer, static_cast<std::int16_t>(layer), 0, 0, 0});
  }
  explicit TraceSpan(const TraceLabel& label) {
    if (tracing() && label.kind != TraceKind::kCount) [[unlikely]]
      begin(label);
  }
  ~TraceSpan() {
    if (begin_ns_ != 0) [[unlikely]]
      end();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  void begin(TraceLabel label);
  void end();
  std::int64_t begin_ns_ = 0;  // 0: not recorded
  TraceLabel outer_;           // the thread's innermost label outside of this span
};

}  // namespace quire
