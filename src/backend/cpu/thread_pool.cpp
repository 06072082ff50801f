#include "backend/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"
#include "base/trace.h"

namespace quire {
namespace {

// Long enough for the gaps between the operations of a step, short against a time slice.
constexpr std::chrono::microseconds kSpinTime{40};
constexpr int kPausesPerClockRead = 32;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Rounding to nearest, denormals kept, NaNs passed on, no traps: the same arithmetic on every
// thread that computes.
void set_float_mode() {
#if defined(__x86_64__)
  constexpr unsigned kDefaultMxcsr = 0x1f80;
  if (_mm_getcsr() != kDefaultMxcsr) _mm_setcsr(kDefaultMxcsr);
#elif defined(__aarch64__)
  constexpr std::uint64_t kDefaultFpcr = 0;
  std::uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  if (fpcr != kDefaultFpcr) asm volatile("msr fpcr, %0" ::"r"(kDefaultFpcr));
#endif
}

// Room for 8192 CPUs, more than Linux is built for.
struct CpuMask {
  cpu_set_t sets[8];
};
// Binds the calling thread to one CPU. A refusal costs speed only.
void pin_to(int cpu) {
  CpuMask mask{};
  CPU_SET_S(static_cast<std::size_t>(cpu), sizeof(mask), mask.sets);
  sched_setaffinity(0, sizeof(mask), mask.sets);
}

// At most this often is the caller moved: others may keep pushing it away.
constexpr std::chrono::milliseconds kMoveInterval{2};

}  // namespace

ThreadPool::ThreadPool(const Options& options)
    : size_(options.threads), spin_(options.spin), pin_cpus_(options.pin_cpus) {
  QUIRE_CHECK(size_ >= 1, "a thread pool needs at least one thread, not {}", size_);
  for (int thread = 1; thread < size_; ++thread) {
    const auto index = static_cast<std::size_t>(thread);
    const int cpu = index < options.pin_cpus.size() ? options.pin_cpus[index] : -1;
    workers_.emplace_back([this, thread, cpu] { work(thread, cpu); });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  start_.value.fetch_add(1, std::memory_order_release);
  start_.value.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::wait_change(Signal& signal, std::uint32_t seen) {
  if (spin_) {
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < kPausesPerClockRead; ++i) {
        if (signal.value.load(std::memory_order_acquire) != seen) return;
        pause_cpu();
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  while (signal.value.load(std::memory_order_acquire) == seen)
    signal.value.wait(seen, std::memory_order_acquire);
}

void ThreadPool::work(int thread, int pin_cpu) {
  pthread_setname_np(pthread_self(), ("kernel-" + std::to_string(thread)).c_str());
  if (pin_cpu >= 0) pin_to(pin_cpu);
  set_float_mode();
  std::uint32_t seen = 0;
  while (true) {
    wait_change(start_, seen);
    ++seen;
    if (stop_) return;
    {
      const TraceSpan span(task_label_);
      task_(context_, thread);
    }
    if (done_.value.fetch_add(1, std::memory_order_acq_rel) + 2 ==
        static_cast<std::uint32_t>(size_)) {
      done_.value.store(0, std::memory_order_relaxed);
      finished_.value.fetch_add(1, std::memory_order_release);
      finished_.value.notify_one();
    }
  }
}

// A caller that the scheduler has put on a pinned worker's CPU would take turns with that worker.
void ThreadPool::leave_worker_cpus() {
  if (pin_cpus_.empty() || sched_getcpu() == pin_cpus_[0]) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_move_ < kMoveInterval) return;
  last_move_ = now;
  CpuMask mask{};
  if (sched_getaffinity(0, sizeof(mask), mask.sets) != 0) return;
  pin_to(pin_cpus_[0]);                           // moves at once
  sched_setaffinity(0, sizeof(mask), mask.sets);  // and is free again
}

void ThreadPool::run_erased(Task task, void* context) {
  set_float_mode();
  if (size_ == 1) return task(context, 0);
  leave_worker_cpus();
  const std::uint32_t finished = finished_.value.load(std::memory_order_relaxed);
  task_ = task;
  context_ = context;
  task_label_ = current_trace_label();
  start_.value.fetch_add(1, std::memory_order_release);
  start_.value.notify_all();
  task(context, 0);
  const TraceSpan span(TraceKind::kWait);
  wait_change(finished_, finished);
}

void ThreadPool::barrier() {
  if (size_ == 1) return;
  const TraceSpan span(TraceKind::kWait);
  const std::uint32_t round = barrier_round_.value.load(std::memory_order_relaxed);
  if (arrived_.value.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      static_cast<std::uint32_t>(size_)) {
    arrived_.value.store(0, std::memory_order_relaxed);
    barrier_round_.value.fetch_add(1, std::memory_order_release);
    barrier_round_.value.notify_all();
  } else {
    wait_change(barrier_round_, round);
  }
}

}  // namespace quire
