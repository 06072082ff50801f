// The rules of the KV cache one by one; random histories against a slow model are in
// kv_cache_model_test.cpp.
#include "kv/kv_cache_manager.h"

#include "kv/kv_cache_test_util.h"

namespace quire {
namespace {

KvCacheOptions options(std::vector<std::int32_t> blocks, std::int32_t block_size = 4) {
  KvCacheOptions result;
  result.block_size = block_size;
  for (const std::int32_t n : blocks) result.groups.push_back({n, 0, false});
  return result;
}

// Blocks for all tokens, entered in the index.
void compute(KvCacheManager& kv, SequenceKv& sequence, const std::vector<TokenId>& tokens) {
  ASSERT_TRUE(kv.try_grow(sequence, static_cast<std::int32_t>(tokens.size())));
  kv.commit(sequence, tokens, static_cast<std::int32_t>(tokens.size()));
}

std::vector<std::int32_t> ids(const SequenceKv& sequence, std::size_t group = 0) {
  std::vector<std::int32_t> result;
  for (const BlockId block : sequence.groups[group].blocks) result.push_back(block.value);
  return result;
}

TEST(KvCacheManager, WithoutGroupsThereIsAlwaysRoomAndNothingToShare) {
  KvCacheManager kv(options({}));
  const std::vector<TokenId> tokens = tokens_from(1, 50);
  SequenceKv first, second, fork;
  EXPECT_EQ(kv.match(first, tokens), 0);
  compute(kv, first, tokens);
  EXPECT_EQ(kv.match(second, tokens), 0);
  EXPECT_TRUE(kv.can_grow(second, 0, 1 << 30, {}));
  EXPECT_TRUE(kv.could_fit(1 << 30));
  std::vector<KvCacheManager::Copy> copies;
  EXPECT_TRUE(kv.fork(first, fork, 50, &copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(kv.trim(first, 20), 20);
  expect_intact(kv, {&first, &second, &fork});
  kv.release(first);
  EXPECT_EQ(kv.stats().num_blocks, 0);
  EXPECT_TRUE(kv.reset());
}

TEST(KvCacheManager, GrowsByWholeBlocksAllOrNothing) {
  KvCacheManager kv(options({4, 3}));
  SequenceKv a, b;
  EXPECT_TRUE(kv.try_grow(a, 5));
  EXPECT_EQ(ids(a), (std::vector{0, 1}));
  EXPECT_EQ(ids(a, 1), (std::vector{0, 1}));
  EXPECT_TRUE(kv.try_grow(a, 8));  // fits in what it has
  EXPECT_EQ(a.num_blocks(), 2u);
  EXPECT_FALSE(kv.try_grow(b, 5));  // group 1 has one block left
  EXPECT_EQ(b.num_blocks(), 0u);
  EXPECT_EQ(kv.stats().used_blocks, 4);
  EXPECT_TRUE(kv.can_grow(b, 0, 4, std::vector{1, 0}));
  EXPECT_FALSE(kv.can_grow(b, 0, 4, std::vector{0, 1}));
  EXPECT_TRUE(kv.could_fit(12));
  EXPECT_FALSE(kv.could_fit(13));
  expect_intact(kv, {&a, &b});
  kv.release(a);
  EXPECT_EQ(kv.stats().free_blocks, 7);
  expect_intact(kv, {});
}

TEST(KvCacheManager, MatchTakesWholeBlocksAndLeavesOneToken) {
  KvCacheManager kv(options({8}));
  const auto tokens = tokens_from(1, 10);
  SequenceKv a, b, c;
  compute(kv, a, tokens);
  EXPECT_EQ(kv.match(b, tokens), 8);
  EXPECT_EQ(ids(b), (std::vector{0, 1}));
  EXPECT_EQ(kv.match(c, tokens_from(1, 8)), 4);  // the 8th token is computed
  expect_intact(kv, {&a, &b, &c});
  SequenceKv d;
  EXPECT_EQ(kv.match(d, tokens_from(2, 10)), 0);
  EXPECT_EQ(kv.match(d, tokens_from(1, 1)), 0);
  EXPECT_EQ(kv.match(d, {}), 0);
}

TEST(KvCacheManager, SaltsDoNotShare) {
  KvCacheManager kv(options({8}));
  const auto tokens = tokens_from(1, 9);
  SequenceKv a, b, c;
  a.salt = 1;
  b.salt = 2;
  c.salt = 1;
  compute(kv, a, tokens);
  EXPECT_EQ(kv.match(b, tokens), 0);
  EXPECT_EQ(kv.match(c, tokens), 8);
}

TEST(KvCacheManager, CollidingHashesDoNotLeak) {
  KvCacheOptions o = options({16}, 2);
  o.hash = [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 7; };
  KvCacheManager kv(o);
  const std::vector<TokenId> x{1, 2, 3, 4, 0}, y{5, 6, 3, 4, 0}, z{3, 4, 1, 2, 0};
  SequenceKv a, b, c, d, e;
  compute(kv, a, x);
  EXPECT_EQ(kv.match(b, y), 0);
  compute(kv, b, y);
  EXPECT_EQ(kv.match(c, z), 0);  // the same blocks in another order
  EXPECT_EQ(kv.match(d, y), 4);
  EXPECT_EQ(d.groups[0].blocks[1], b.groups[0].blocks[1]);  // {3,4} after {5,6}, not after {1,2}
  e.salt = 9;
  EXPECT_EQ(kv.match(e, x), 0);
  expect_intact(kv, {&a, &b, &c, &d, &e});
}

TEST(KvCacheManager, AHitMustBeValidInAllGroups) {
  KvCacheManager kv(options({8, 3}, 2));
  const std::vector<TokenId> x{1, 2, 3, 4, 5}, y{7, 8, 9, 10};
  SequenceKv a, b, c;
  compute(kv, a, x);
  kv.release(a);
  compute(kv, b, y);  // evicts in group 1 only, the tail first
  EXPECT_EQ(kv.match(c, x), 2);
  expect_intact(kv, {&b, &c});
}

TEST(KvCacheManager, UsesRecycledThenUntouchedThenOldestCached) {
  KvCacheManager kv(options({5}, 2));
  SequenceKv a, b, c;
  compute(kv, a, {1, 2, 3, 4, 5});  // 0 and 1 indexed, 2 not
  kv.release(a);
  ASSERT_TRUE(kv.try_grow(b, 10));
  EXPECT_EQ(ids(b), (std::vector{2, 3, 4, 1, 0}));  // of the cached ones, the tail goes first
  EXPECT_EQ(kv.match(c, std::vector<TokenId>{1, 2, 3, 4, 5}), 0);
  expect_intact(kv, {&b, &c});
}

TEST(KvCacheManager, EvictedParentIsNotFoundThroughItsNewContent) {
  KvCacheManager kv(options({3}, 2));
  SequenceKv a, b, c, d;
  compute(kv, a, {1, 2, 3, 4});
  compute(kv, b, {1, 2});  // a second block with the same content
  kv.release(a);
  kv.release(b);  // all three are cached: 1, 0, 2 in order of age
  compute(kv, c, {8, 9, 5, 6});
  EXPECT_EQ(kv.match(d, std::vector<TokenId>{8, 9, 3, 4, 0}), 2);
  expect_intact(kv, {&c, &d});
}

TEST(KvCacheManager, ForkSharesFullBlocksAndCopiesTheLast) {
  KvCacheManager kv(options({4, 4}));
  const auto tokens = tokens_from(1, 6);
  SequenceKv a, b, c;
  std::vector<KvCacheManager::Copy> copies;
  compute(kv, a, tokens);
  ASSERT_TRUE(kv.fork(a, b, 6, &copies));
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[1].group, 1);
  EXPECT_EQ(copies[0].source, a.groups[0].blocks[1]);
  EXPECT_EQ(copies[0].target, b.groups[0].blocks[1]);
  EXPECT_EQ(copies[0].tokens, 2);
  EXPECT_EQ(a.groups[0].blocks[0], b.groups[0].blocks[0]);
  ASSERT_TRUE(kv.fork(a, c, 4, &copies));  // ends at a block: nothing to copy
  EXPECT_EQ(copies.size(), 2u);
  ASSERT_TRUE(kv.try_grow(c, 5));
  SequenceKv d;
  EXPECT_FALSE(kv.fork(a, d, 6, &copies));  // no block left
  EXPECT_EQ(d.num_blocks(), 0u);
  expect_intact(kv, {&a, &b, &c, &d});
  for (SequenceKv* s : {&a, &b, &c}) kv.release(*s);
  EXPECT_EQ(kv.stats().used_blocks, 0);
  expect_intact(kv, {});
}

TEST(KvCacheManager, TrimUnindexesWhatWillBeWrittenAnew) {
  KvCacheManager kv(options({8}));
  const auto tokens = tokens_from(1, 12);
  SequenceKv a, b;
  compute(kv, a, tokens);
  EXPECT_EQ(kv.trim(a, 6), 6);
  EXPECT_EQ(a.num_blocks(), 2u);
  EXPECT_EQ(a.num_indexed_blocks, 1);
  EXPECT_EQ(kv.match(b, tokens), 4);
  expect_intact(kv, {&a, &b});
  EXPECT_EQ(kv.trim(a, 2), 0);  // b holds that block too
  EXPECT_EQ(a.num_blocks(), 0u);
  expect_intact(kv, {&a, &b});
}

TEST(KvCacheManager, ResetForgetsWhatNobodyHolds) {
  KvCacheManager kv(options({8}));
  const auto x = tokens_from(1, 9), y = tokens_from(50, 9);
  SequenceKv a, b, c;
  compute(kv, a, x);
  compute(kv, b, y);
  kv.release(b);
  EXPECT_FALSE(kv.reset());
  EXPECT_EQ(kv.match(c, y), 0);
  EXPECT_EQ(kv.match(c, x), 8);
  kv.release(a);
  kv.release(c);
  EXPECT_TRUE(kv.reset());
  EXPECT_EQ(kv.match(c, x), 0);
  EXPECT_EQ(kv.stats().cached_free_blocks, 0);
  expect_intact(kv, {&c});
}

TEST(KvCacheManager, CountsAQueryWhenItsFirstGrowthSucceeds) {
  KvCacheManager kv(options({8}));
  const auto tokens = tokens_from(1, 9);
  SequenceKv a, b;
  compute(kv, a, tokens);
  kv.match(b, tokens);
  kv.release(b);
  EXPECT_EQ(kv.stats().query_tokens, 0);
  kv.match(b, tokens);
  ASSERT_TRUE(kv.try_grow(b, 9));
  ASSERT_TRUE(kv.try_grow(b, 13));
  EXPECT_EQ(kv.stats().query_tokens, 9);
  EXPECT_EQ(kv.stats().hit_tokens, 8);
}

TEST(KvCacheManager, WithoutPrefixCachingNothingIsKept) {
  KvCacheOptions o = options({4});
  o.enable_prefix_caching = false;
  KvCacheManager kv(o);
  const auto tokens = tokens_from(1, 9);
  SequenceKv a, b;
  compute(kv, a, tokens);
  kv.release(a);
  EXPECT_EQ(kv.match(b, tokens), 0);
  EXPECT_EQ(kv.stats().cached_free_blocks, 0);
  expect_intact(kv, {&b});
}

TEST(KvCacheManager, IntegrityFindsAForgottenHolder) {
  KvCacheManager kv(options({4}));
  SequenceKv a;
  compute(kv, a, tokens_from(1, 5));
  EXPECT_FALSE(kv.check_integrity({}));
}

}  // namespace
}  // namespace quire
