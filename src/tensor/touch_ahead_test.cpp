#include "tensor/touch_ahead.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace quire {
namespace {

constexpr std::size_t kMiB = 1 << 20;

// Bytes of the buffer that are in memory.
std::size_t resident(Buffer& buffer) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((buffer.size() + page - 1) / page);
  EXPECT_EQ(mincore(buffer.data(), buffer.size(), pages.data()), 0);
  return page * static_cast<std::size_t>(
                    std::count_if(pages.begin(), pages.end(), [](auto p) { return p & 1; }));
}

TEST(TouchAhead, TouchesNothingBeforeSomethingIsUsed) {
  Buffer buffer(16 * kMiB);
  TouchAhead touch(buffer, 4 * kMiB);
  EXPECT_EQ(touch.settle(), 0u);
  touch.used(0);
  EXPECT_EQ(touch.settle(), 0u);
  EXPECT_EQ(resident(buffer), 0u);
}

TEST(TouchAhead, KeepsAheadOfWhatIsUsedUpToTheEnd) {
  Buffer buffer(17 * kMiB);
  TouchAhead touch(buffer, 4 * kMiB);
  touch.used(1);
  EXPECT_EQ(touch.settle(), 4 * kMiB);
  EXPECT_EQ(resident(buffer), 4 * kMiB);
  touch.used(2 * kMiB + 1);
  touch.used(5);  // less than before
  EXPECT_EQ(touch.settle(), 6 * kMiB);
  EXPECT_EQ(resident(buffer), 6 * kMiB);
  touch.used(11 * kMiB);  // beyond what was touched
  EXPECT_EQ(touch.settle(), 14 * kMiB);
  touch.used(100 * kMiB);
  EXPECT_EQ(touch.settle(), 17 * kMiB);
}

TEST(TouchAhead, TouchesAllWhenAsked) {
  Buffer buffer(5 * kMiB + 4096);
  TouchAhead touch(buffer, kMiB);
  touch.touch_all();
  EXPECT_EQ(resident(buffer), buffer.size());
  touch.used(3 * kMiB);
  EXPECT_EQ(touch.settle(), buffer.size());
}

TEST(TouchAhead, ChangesNoByteThatOthersWriteMeanwhile) {
  Buffer buffer(64 * kMiB);
  TouchAhead touch(buffer, 16 * kMiB);
  constexpr std::size_t kStep = 4096;
  std::vector<std::thread> writers;
  for (std::size_t w = 0; w < 2; ++w) {
    writers.emplace_back([&, w] {
      for (std::size_t at = w * kStep; at < buffer.size(); at += 2 * kStep) {
        buffer.data()[at] = static_cast<std::byte>(at / kStep % 251 + 1);
        touch.used(at + kStep);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  touch.settle();
  for (std::size_t at = 0; at < buffer.size(); at += kStep)
    ASSERT_EQ(buffer.data()[at], static_cast<std::byte>(at / kStep % 251 + 1)) << at;
}

}  // namespace
}  // namespace quire
