#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

namespace quire {
namespace {

TEST(ThreadPool, EveryThreadRunsOnceAndWritesAreSeen) {
  for (const int threads : {1, 2, 3, 5}) {
    for (const bool spin : {true, false}) {
      ThreadPool pool({threads, spin, {}});
      std::vector<int> counts(static_cast<std::size_t>(threads));
      for (int i = 0; i < 300; ++i) pool.run([&](int thread) { ++counts[static_cast<std::size_t>(thread)]; });
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

TEST(ThreadPool, PinnedWorkersRun) {
  ThreadPool pool({2, true, {0, 0}});
  std::atomic<int> calls{0};
  pool.run([&](int) { ++calls; });
  EXPECT_EQ(calls, 2);
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
