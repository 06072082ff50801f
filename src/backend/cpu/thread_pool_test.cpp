#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire {
namespace {

TEST(ThreadPool, EveryThreadRunsOnceAndWritesAreSeen) {
  for (const int threads : {1, 2, 3, 5}) {
    for (const bool spin : {true, false}) {
      ThreadPool pool({threads, spin, {}});
      std::vector<int> counts(static_cast<std::size_t>(threads));
      for (int i = 0; i < 300; ++i)
        pool.run([&](int thread) { ++counts[static_cast<std::size_t>(thread)]; });
      for (int count : counts) EXPECT_EQ(count, 300);
    }
  }
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  constexpr int kThreads = 3, kPhases = 50;
  ThreadPool pool({kThreads, true, {}});
  std::vector<int> values(kThreads);
  std::atomic<int> mistakes{0};
  pool.run([&](int thread) {
    for (int phase = 1; phase <= kPhases; ++phase) {
      values[static_cast<std::size_t>(thread)] = phase;
      pool.barrier();
      if (std::accumulate(values.begin(), values.end(), 0) != phase * kThreads) ++mistakes;
      pool.barrier();
    }
  });
  EXPECT_EQ(mistakes, 0);
}

TEST(ThreadPool, WakesAfterItHasGoneToSleep) {
  ThreadPool pool({2, true, {}});
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> calls{0};
    pool.run([&](int) { ++calls; });
    EXPECT_EQ(calls, 2);
  }
}

TEST(ThreadPool, ComputesInTheSameFloatModeOnEveryThread) {
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  const unsigned flush_and_round_down = before | 0x8040 | 0x2000;
  _mm_setcsr(flush_and_round_down);
#elif defined(__aarch64__)
  std::uint64_t before;
  const std::uint64_t flush_and_round_down = 1u << 24 | 2u << 22 | 1u << 25;
  asm volatile("mrs %0, fpcr" : "=r"(before));
  asm volatile("msr fpcr, %0" ::"r"(flush_and_round_down));
#endif
  ThreadPool pool({2, true, {}});  // its thread inherits the mode
  volatile float least = 0x1p-126f, third = 1.0f, three = 3.0f;
  std::vector<float> halves(2), thirds(2);
  pool.run([&](int thread) {
    halves[static_cast<std::size_t>(thread)] = least * 0.5f;
    thirds[static_cast<std::size_t>(thread)] = third / three;
  });
#if defined(__x86_64__)
  _mm_setcsr(before);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(before));
#endif
  for (const float half : halves) EXPECT_EQ(half, 0x1p-127f) << "denormals are kept";
  for (const float value : thirds) EXPECT_EQ(value, 0x1.555556p-2f) << "rounded to nearest";
}

TEST(ThreadPool, PinnedWorkersLeaveTheCallerItsMask) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &before)) cpus.push_back(cpu);
  }
  if (cpus.size() == 1) cpus.push_back(cpus[0]);
  ThreadPool pool({2, true, cpus});
  for (int i = 0; i < 100; ++i) {
    int ran_on = -1;
    pool.run([&](int thread) {
      if (thread == 1) ran_on = sched_getcpu();
    });
    EXPECT_EQ(ran_on, cpus[1]);
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(SplitRange, CoversEverythingOnce) {
  for (const std::int64_t total : {0, 1, 7, 64}) {
    std::int64_t next = 0;
    for (int i = 0; i < 5; ++i) {
      const Range range = split_range(total, i, 5);
      EXPECT_EQ(range.begin, next);
      EXPECT_LE(range.end - range.begin, total / 5 + 1);
      next = range.end;
    }
    EXPECT_EQ(next, total);
  }
}

}  // namespace
}  // namespace quire
