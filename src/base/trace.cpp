// Rings of spans and who may touch them; see trace.h.
//
// A ring is written by its thread alone: an event, then the count. A reader takes the count and
// copies what lies before it. Recording is off by then, but spans that are open still end, at most
// as many as nest: the reader stays that far away from the oldest events of a full ring.
#include "base/trace.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace quire {
namespace {

constexpr std::uint64_t kRingEvents = 1 << 17;  // 160 steps of a model with 30 layers
constexpr std::uint64_t kMostOpenSpans = 64;

struct Ring {
  std::string thread_name;
  // Written once: no page is committed in the middle of a span.
  std::unique_ptr<TraceEvent[]> events{new TraceEvent[kRingEvents]()};
  std::atomic<std::uint64_t> count{0};  // of all events since the thread began
  std::uint64_t first = 0;              // of the recording; guarded by Recorder::mutex
};

struct Recorder {
  std::mutex mutex;
  std::vector<std::unique_ptr<Ring>> rings;  // of ended threads too
  std::string path;
  bool recording = false;
};
// Never destroyed: threads may end spans while the process exits.
Recorder& recorder() {
  static Recorder& instance = *new Recorder();
  return instance;
}
std::atomic<std::int64_t> g_start_ns{0};  // of the recording: spans begun before are dropped

constexpr TraceLabel kNoLabel{TraceKind::kCount, -1, 0, 0, 0};
thread_local Ring* t_ring = nullptr;
thread_local TraceLabel t_label = kNoLabel;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Ring* make_ring() {
  auto ring = std::make_unique<Ring>();
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  ring->thread_name = name;
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  r.rings.push_back(std::move(ring));
  return r.rings.back().get();
}

TraceThread read_ring(const Ring& ring) {
  TraceThread thread;
  thread.name = ring.thread_name;
  const std::uint64_t count = ring.count.load(std::memory_order_acquire);
  const std::uint64_t safe = kRingEvents - kMostOpenSpans;
  const std::uint64_t from = std::max(ring.first, count > safe ? count - safe : 0);
  thread.dropped = from - ring.first;
  for (std::uint64_t i = from; i < count; ++i)
    thread.events.push_back(ring.events[i % kRingEvents]);
  // They lie in the order of their ends: an outer span after what it holds.
  std::reverse(thread.events.begin(), thread.events.end());
  std::stable_sort(
      thread.events.begin(), thread.events.end(),
      [](const TraceEvent& a, const TraceEvent& b) { return a.begin_ns < b.begin_ns; });
  return thread;
}

}  // namespace

void start_trace(std::string path) {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  for (const auto& ring : r.rings) ring->first = ring->count.load(std::memory_order_acquire);
  r.path = std::move(path);
  r.recording = true;
  g_start_ns.store(now_ns(), std::memory_order_relaxed);
  trace_detail::on.store(true, std::memory_order_release);
}

std::vector<TraceThread> take_trace() {
  Recorder& r = recorder();
  std::lock_guard lock(r.mutex);
  trace_detail::on.store(false, std::memory_order_seq_cst);
  r.recording = false;
  std::vector<TraceThread> threads;
  for (const auto& ring : r.rings) {
    TraceThread thread = read_ring(*ring);
    if (!thread.events.empty()) threads.push_back(std::move(thread));
  }
  return threads;
}

Status finish_trace() {
  std::string path;
  {
    Recorder& r = recorder();
    std::lock_guard lock(r.mutex);
    if (!std::exchange(r.recording, false)) return {};
    path = r.path;
  }
  const std::vector<TraceThread> threads = take_trace();
  const std::string json = trace_json(threads);
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  const bool opened = file != nullptr;
  const bool written = opened && std::fwrite(json.data(), 1, json.size(), file) == json.size();
  if ((opened && std::fclose(file) != 0) || !written) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--profile: cannot write {}: does its folder exist, may it be written, is "
                      "there room on the disk?",
                      path);
  }
  const std::string summary = trace_summary(threads);
  std::fprintf(stderr, "%sprofile: %s\n", summary.c_str(), path.c_str());
  return {};
}

TraceLabel current_trace_label() { return tracing() ? t_label : kNoLabel; }

void TraceSpan::begin(TraceLabel label) {
  if (t_ring == nullptr) t_ring = make_ring();
  outer_ = t_label;
  if (label.layer < 0) label.layer = outer_.layer;
  t_label = label;
  begin_ns_ = now_ns();
}

void TraceSpan::end() {
  const TraceLabel label = std::exchange(t_label, outer_);
  if (begin_ns_ < g_start_ns.load(std::memory_order_relaxed)) return;
  const std::uint64_t count = t_ring->count.load(std::memory_order_relaxed);
  t_ring->events[count % kRingEvents] = {begin_ns_, now_ns(), label};
  t_ring->count.store(count + 1, std::memory_order_release);
}

}  // namespace quire
