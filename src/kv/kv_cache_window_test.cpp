// Groups with a sliding window: what is held, found again, and counted.
#include <algorithm>

#include "kv/kv_cache_test_util.h"

namespace quire {
namespace {

constexpr std::int32_t kBlockSize = 4;

// Group 0 attends to all; group 1 has the window.
KvCacheOptions window_options(std::int32_t window, std::int32_t num_blocks,
                              std::int32_t num_window_blocks, std::int32_t step) {
  KvCacheOptions result;
  result.block_size = kBlockSize;
  result.groups = {{num_blocks, 0, false}, {num_window_blocks, window, false}};
  result.max_step_tokens = step;
  return result;
}

// Computes tokens from `begin` on in steps; returns the most blocks that group 1 held.
std::int32_t compute_in_steps(KvCacheManager& kv, SequenceKv& sequence,
                              const std::vector<TokenId>& tokens, std::int32_t begin,
                              std::int32_t step) {
  const auto size = static_cast<std::int32_t>(tokens.size());
  std::int32_t most = 0;
  while (begin < size) {
    const std::int32_t end = std::min(begin + step, size);
    EXPECT_TRUE(kv.try_grow(sequence, end)) << begin;
    most = std::max(most, sequence.groups[1].num_held());
    kv.commit(sequence, tokens, end);
    kv.free_unreachable(sequence, end);
    expect_intact(kv, {&sequence});
    begin = end;
  }
  return most;
}

TEST(KvCacheWindow, ALongSequenceHoldsItsWindowAndOneStep) {
  const auto tokens = tokens_from(1, 400);
  for (const std::int32_t window : {1, 2, 4, 5, 8, 13, 32}) {
    for (const std::int32_t step : {1, 3, 4, 7, 16}) {
      SCOPED_TRACE(testing::Message() << "window " << window << ", step " << step);
      // One window of at least the block before is kept: the parent of the next in the index.
      const std::int32_t reach = std::max(window, kBlockSize + 1) + step;
      const std::int32_t bound = (reach + kBlockSize - 1) / kBlockSize + 1;
      KvCacheManager kv(window_options(window, 100, bound, step));
      EXPECT_TRUE(kv.could_fit(400));
      EXPECT_FALSE(kv.could_fit(401));  // by group 0
      SequenceKv sequence;
      EXPECT_TRUE(kv.can_grow(sequence, 0, 400, std::vector{0, 0}));
      EXPECT_LE(compute_in_steps(kv, sequence, tokens, 0, step), bound);
      EXPECT_EQ(sequence.num_blocks(), 100u);
      // All that the next query reaches is there.
      for (std::int32_t pos = 400 - window + 1; pos < 400; ++pos) {
        EXPECT_NE(sequence.groups[1].blocks[static_cast<std::size_t>(pos / kBlockSize)], kNoBlock);
      }
      kv.release(sequence);
      EXPECT_EQ(kv.stats().used_blocks, 0);
      expect_intact(kv, {});
    }
  }
}

TEST(KvCacheWindow, AHitNeedsTheWindowBeforeItsEndOnly) {
  KvCacheManager kv(
      window_options(8, 32, 6, 4));  // group 1 keeps the last 6 blocks that were computed
  const auto tokens = tokens_from(1, 65);
  SequenceKv a, b, c, d;
  compute_in_steps(kv, a, tokens, 0, 4);
  kv.release(a);
  EXPECT_EQ(kv.match(b, tokens), 64);
  EXPECT_EQ(b.groups[0].num_held(), 16);
  EXPECT_EQ(b.groups[1].num_freed, 14);  // positions 57.. are reached: blocks 14 and 15
  EXPECT_EQ(b.groups[1].num_held(), 2);
  expect_intact(kv, {&b});
  // A prompt that leaves this one at position 24 finds no window there.
  auto other = tokens;
  std::iota(other.begin() + 24, other.end(), 1000);
  EXPECT_EQ(kv.match(c, other), 0);
  kv.release(b);
  expect_intact(kv, {&c});
  // One that is recomputed from the hit goes on as before.
  auto longer = tokens_from(1, 90);
  EXPECT_EQ(kv.match(d, longer), 64);
  compute_in_steps(kv, d, longer, 64, 4);
}

TEST(KvCacheWindow, MissingBlocksCountTheWindowAtItsFullest) {
  KvCacheManager kv(window_options(9, 100, 100, 8));
  SequenceKv sequence;
  EXPECT_EQ(kv.missing_blocks(sequence, 0, 0, 400), 100);
  EXPECT_EQ(kv.missing_blocks(sequence, 1, 0, 400), 5);  // 16 positions, wherever they begin
  EXPECT_EQ(kv.missing_blocks(sequence, 1, 0, 6), 2);
  compute_in_steps(kv, sequence, tokens_from(1, 200), 0, 8);
  EXPECT_EQ(sequence.groups[1].num_held(), 2);             // positions 192..199
  EXPECT_EQ(kv.missing_blocks(sequence, 1, 200, 201), 1);  // 192..200
  EXPECT_EQ(kv.missing_blocks(sequence, 0, 200, 201), 1);
}

TEST(KvCacheWindow, TrimAndForkNeedAWindowThatIsStillThere) {
  KvCacheManager kv(window_options(8, 40, 40, 4));
  const auto tokens = tokens_from(1, 50);
  SequenceKv a, b, c, d;
  compute_in_steps(kv, a, tokens, 0, 4);
  std::vector<KvCacheManager::Copy> copies;
  EXPECT_FALSE(kv.fork(a, b, 30, &copies));
  EXPECT_EQ(b.num_blocks(), 0u);
  ASSERT_TRUE(kv.fork(a, c, 50, &copies));
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(c.groups[1].blocks[9], kNoBlock);
  EXPECT_NE(c.groups[1].blocks[10], kNoBlock);  // position 43
  expect_intact(kv, {&a, &c});
  EXPECT_EQ(kv.trim(c, 49), 49);  // its own copy
  EXPECT_EQ(kv.trim(a, 48), 48);
  expect_intact(kv, {&a, &c});
  EXPECT_EQ(kv.trim(a, 20), 0);  // freed before
  EXPECT_EQ(a.num_blocks(), 0u);
  expect_intact(kv, {&a, &c});
  kv.release(c);
  EXPECT_EQ(kv.stats().used_blocks, 0);
  EXPECT_EQ(kv.match(d, tokens), 48);  // what was given back is found again
  expect_intact(kv, {&d});
}

}  // namespace
}  // namespace quire
