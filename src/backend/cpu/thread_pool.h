// The kernel threads: created once, woken for one parallel region at a time. The thread that calls
// run() is thread 0 and takes part; run() returns when all are through. One caller at a time.
// Nothing is allocated in a region. Waiting threads spin for some tens of microseconds, then sleep
// in the kernel: the machine may be as small as two CPUs, shared with the server's other threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/trace.h"

namespace quire {

// The part of `total` items that thread `index` of `count` takes: [begin, end), sizes differ by one
// at most.
struct Range {
  std::int64_t begin = 0, end = 0;
};
inline Range split_range(std::int64_t total, int index, int count) {
  return {total * index / count, total * (index + 1) / count};
}

class ThreadPool {
 public:
  struct Options {
    int threads = 1;   // the caller included
    bool spin = true;  // false when there are more threads than CPUs
    // Worker i (1..) is pinned to pin_cpus[i]; empty: not pinned. The caller is moved to
    // pin_cpus[0] when a region starts while it sits on a worker's CPU, but stays free to move
    // (threads that it makes inherit its mask).
    std::vector<int> pin_cpus;
  };
  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Calls fn(thread) once on every thread.
  template <class Fn>
  void run(Fn&& fn) {
    using Plain = std::remove_reference_t<Fn>;
    run_erased([](void* context, int thread) { (*static_cast<Plain*>(context))(thread); },
               const_cast<void*>(static_cast<const void*>(&fn)));
  }
  // Inside a region: no thread goes on before all have come here. All threads must call it equally
  // often.
  void barrier();

 private:
  using Task = void (*)(void* context, int thread);
  // A counter that threads wait on, on a cache line of its own.
  struct alignas(64) Signal {
    std::atomic<std::uint32_t> value{0};
  };
  void run_erased(Task task, void* context);
  void work(int thread, int pin_cpu);
  void leave_worker_cpus();
  // Until signal.value != seen.
  void wait_change(Signal& signal, std::uint32_t seen);

  const int size_;
  const bool spin_;
  const std::vector<int> pin_cpus_;
  std::chrono::steady_clock::time_point last_move_{};  // of the caller to its CPU
  Task task_ = nullptr;  // written by the caller before start_ changes
  void* context_ = nullptr;
  TraceLabel task_label_;  // of the operation that the region is part of; the same rule
  bool stop_ = false;
  Signal start_;          // counts regions
  Signal done_;           // workers through with the region
  Signal finished_;       // counts regions that every worker has left
  Signal arrived_;        // threads at the barrier
  Signal barrier_round_;  // counts barriers passed
  std::vector<std::thread> workers_;
};

}  // namespace quire
