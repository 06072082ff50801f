// Random histories of the KV cache against a slow, obvious model: lists of blocks, and for every
// indexed block the whole prefix that it holds. Groups may have windows, and there may be snapshots
// of recurrent state beside or instead of them. Few different tokens and hashes that collide make
// sharing and confusion likely.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "kv/kv_cache_manager.h"
#include "kv/kv_cache_naive.h"

namespace quire {
namespace {

using namespace naive;

struct Live {
  SequenceKv kv;
  std::vector<TokenId> tokens;
};

class History {
 public:
  History(unsigned seed, const std::vector<KvCacheOptions::Group>& groups, PrefixHash hash,
          SnapshotModel snapshots)
      : random_(seed),
        manager_(options(groups, hash, snapshots)),
        snapshots_(std::move(snapshots)) {
    for (const auto& group : groups) groups_.emplace_back(group.num_blocks, group.window);
  }

  void step() {
    const std::size_t kind = below(20);
    if (live_.empty() || kind < 5) {
      if (live_.size() < 8) start();
    } else if (kind < 11) {
      extend(pick(), below(6));
    } else if (kind < 13) {
      fork();
    } else if (kind < 15) {
      below(2) == 0 && snapshots_.count == 0 ? trim(pick()) : slide(pick());
    } else if (kind < 19 || below(4) != 0) {
      release(below(live_.size()));
    } else {
      reset();
    }
    manager_.end_plan();  // each of these is a step
    snapshots_.publish();
    check();
  }
  void finish() {
    while (!live_.empty()) release(0);
    check();
    EXPECT_EQ(manager_.stats().used_blocks, 0);
  }

 private:
  static KvCacheOptions options(const std::vector<KvCacheOptions::Group>& groups, PrefixHash hash,
                                const SnapshotModel& snapshots) {
    KvCacheOptions result;
    result.prefix_match_unit = 1;
    result.recurrent_state = snapshots.count > 0;
    result.num_snapshots = snapshots.count;
    result.snapshot_interval = snapshots.interval;
    result.block_size = kBlockSize;
    result.hash = hash;
    result.groups = groups;
    return result;
  }
  std::size_t below(std::size_t n) { return random_() % n; }
  Live& pick() { return live_[below(live_.size())]; }
  TokenId token() { return static_cast<TokenId>(below(2)); }

  bool fits(std::size_t missing) const {
    return std::ranges::all_of(groups_, [&](const auto& g) { return missing <= g.num_free(); });
  }

  void start() {
    Live& s = live_.emplace_back();
    s.kv.salt = below(2);
    std::vector<TokenId> tokens(1 + below(12));
    for (TokenId& t : tokens) t = token();
    std::size_t hit = full_blocks(tokens.size() - 1);
    const bool recurrent = snapshots_.count > 0;
    const auto snapshot_at = [&](std::size_t blocks) {
      if (!snapshots_.is_position(blocks * kBlockSize)) return -1;
      return snapshots_.find(prefix(s.kv.salt, tokens, blocks));
    };
    const auto found = [&](const GroupModel& g) {
      for (std::size_t i = 0; i < hit; ++i) {
        if (g.needs(i, hit * kBlockSize) && !g.has(prefix(s.kv.salt, tokens, i + 1))) return false;
      }
      return true;
    };
    while (!std::ranges::all_of(groups_, found) || (recurrent && hit > 0 && snapshot_at(hit) < 0))
      --hit;
    ASSERT_EQ(manager_.match(s.kv, tokens), static_cast<std::int32_t>(hit) * kBlockSize);
    ASSERT_EQ(s.kv.snapshot.value, recurrent && hit > 0 ? snapshot_at(hit) : -1);
    if (s.kv.snapshot != kNoBlock) snapshots_.touch(s.kv.snapshot.value);
    s.kv.snapshot = kNoBlock;  // the row has begun
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      ASSERT_EQ(s.kv.groups[g].blocks.size(), hit);
      for (std::size_t i = 0; i < hit; ++i) {
        const std::int32_t block = s.kv.groups[g].blocks[i].value;
        ASSERT_EQ(block >= 0, groups_[g].needs(i, hit * kBlockSize));
        if (block < 0) continue;
        ASSERT_EQ(groups_[g].content.at(block), prefix(s.kv.salt, tokens, i + 1)) << "a leak";
        groups_[g].hold(block);
      }
    }
    const std::size_t computed = hit * kBlockSize + (recurrent ? 0 : begin_block(s, tokens, hit));
    s.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(computed));
    grow(s, tokens);
  }

  // The most tokens that a cached block shares with what comes after `hit` blocks.
  std::size_t longest_begin(const Live& s, const std::vector<TokenId>& tokens, std::size_t hit) {
    const std::size_t wanted =
        std::min<std::size_t>(kBlockSize, tokens.size() - 1 - hit * kBlockSize);
    std::size_t longest = 0;
    for (const auto& [block, held] : groups_.at(0).content) {
      if (held.first != s.kv.salt || held.second.size() != (hit + 1) * kBlockSize ||
          !std::ranges::all_of(groups_, [&](const auto& g) { return g.has(held); })) {
        continue;
      }
      std::size_t shared = 0;
      while (shared < held.second.size() && shared < hit * kBlockSize + wanted &&
             held.second[shared] == tokens[shared]) {
        ++shared;
      }
      if (shared > hit * kBlockSize) longest = std::max(longest, shared - hit * kBlockSize);
    }
    return longest;
  }

  // The block after the hit may begin with a copy. Returns the tokens of it.
  std::size_t begin_block(Live& s, const std::vector<TokenId>& tokens, std::size_t hit) {
    if (groups_.empty()) return 0;
    const std::size_t saved = fits(2) ? longest_begin(s, tokens, hit) : 0;
    std::vector<KvCacheManager::Copy> copies;
    const auto computed = static_cast<std::int32_t>(hit) * kBlockSize;
    EXPECT_EQ(manager_.match_partial(s.kv, tokens, computed, &copies),
              static_cast<std::int32_t>(saved));
    EXPECT_EQ(copies.size(), saved > 0 ? groups_.size() : 0);
    for (const auto& copy : copies) {
      GroupModel& group = groups_[static_cast<std::size_t>(copy.group)];
      const Prefix& source = group.content.at(copy.source.value);
      EXPECT_EQ(source.first, s.kv.salt) << "a leak";
      EXPECT_TRUE(std::equal(source.second.begin(), source.second.begin() + computed + copy.tokens,
                             tokens.begin()))
          << "a leak";
      group.hold(copy.source.value);
      EXPECT_EQ(copy.target.value, group.take());
      group.drop(copy.source.value);
    }
    return saved;
  }

  void extend(Live& s, std::size_t more) {
    std::vector<TokenId> tokens = s.tokens;
    for (; more > 0; --more) tokens.push_back(token());
    grow(s, tokens);
  }

  // s.tokens are computed; tokens continue them.
  void grow(Live& s, const std::vector<TokenId>& tokens) {
    const SequenceKv before = s.kv;
    const std::size_t held = before.num_blocks();
    const bool expected = fits(blocks_for(tokens.size()) - held);
    ASSERT_EQ(manager_.try_grow(s.kv, static_cast<std::int32_t>(tokens.size())), expected);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const std::size_t wanted = expected ? blocks_for(tokens.size()) : held;
      ASSERT_EQ(s.kv.groups.empty() ? 0 : s.kv.groups[g].blocks.size(), wanted);
      for (std::size_t i = held; i < wanted; ++i) {
        ASSERT_EQ(s.kv.groups[g].blocks[i].value, groups_[g].take());
      }
    }
    if (!expected) return;
    const auto indexed = static_cast<std::size_t>(before.num_indexed_blocks);
    s.tokens = tokens;
    manager_.commit(s.kv, s.tokens, static_cast<std::int32_t>(s.tokens.size()));
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t i = indexed; i < full_blocks(tokens.size()); ++i) {
        groups_[g].content[s.kv.groups[g].blocks[i].value] = prefix(s.kv.salt, tokens, i + 1);
      }
    }
    const std::int32_t snapshot =
        snapshots_.is_position(tokens.size()) ? snapshots_.take({s.kv.salt, tokens}) : -1;
    ASSERT_EQ(
        manager_.take_snapshot(s.kv, s.tokens, static_cast<std::int32_t>(tokens.size())).value,
        snapshot);
  }

  void fork() {
    const Live from = pick();
    const std::size_t n = below(from.tokens.size() + 1);
    const bool copy = n % kBlockSize != 0;
    Live to;
    std::vector<KvCacheManager::Copy> copies;
    const bool expected = (!copy || fits(1)) && is_held(from.kv, n);
    ASSERT_EQ(manager_.fork(from.kv, to.kv, static_cast<std::int32_t>(n), &copies), expected);
    ASSERT_EQ(copies.size(), expected && copy ? groups_.size() : 0);
    if (!expected) return;
    to.tokens.assign(from.tokens.begin(), from.tokens.begin() + static_cast<std::ptrdiff_t>(n));
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t i = 0; i < full_blocks(n); ++i) {
        if (!groups_[g].needs(i, n)) {
          ASSERT_EQ(to.kv.groups[g].blocks[i], kNoBlock);
          continue;
        }
        ASSERT_EQ(to.kv.groups[g].blocks[i], from.kv.groups[g].blocks[i]);
        groups_[g].hold(to.kv.groups[g].blocks[i].value);
      }
      if (!copy) continue;
      ASSERT_EQ(copies[g].source, from.kv.groups[g].blocks[full_blocks(n)]);
      ASSERT_EQ(copies[g].target, to.kv.groups[g].blocks[full_blocks(n)]);
      ASSERT_EQ(copies[g].target.value, groups_[g].take());
    }
    live_.push_back(std::move(to));
  }

  void drop_last(const SequenceKv& kv, std::size_t index) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const BlockId block = kv.groups[g].blocks[index];
      if (block != kNoBlock) groups_[g].drop(block.value);
    }
  }

  // Whether nothing that a sequence of n tokens needs has been given back.
  bool is_held(const SequenceKv& kv, std::size_t n) const {
    for (std::size_t g = 0; g < kv.groups.size(); ++g) {
      for (std::size_t i = 0; i < blocks_for(n); ++i) {
        if (groups_[g].needs(i, n) && kv.groups[g].blocks[i] == kNoBlock) return false;
      }
    }
    return true;
  }

  // Steps up to some position are done.
  void slide(Live& s) {
    const std::size_t n = below(3) == 0 ? below(s.tokens.size() + 1) : s.tokens.size();
    const SequenceKv before = s.kv;
    manager_.free_unreachable(s.kv, static_cast<std::int32_t>(n));
    for (std::size_t g = 0; g < before.groups.size(); ++g) {
      for (std::size_t i = before.num_blocks(); i-- > 0;) {
        const BlockId block = before.groups[g].blocks[i];
        const bool goes = block != kNoBlock && !groups_[g].needs(i, n);
        ASSERT_EQ(s.kv.groups[g].blocks[i], goes ? kNoBlock : block);
        if (goes) groups_[g].drop(block.value);
      }
    }
  }

  void trim(Live& s) {
    const std::size_t n = below(s.tokens.size() + 1);
    const SequenceKv before = s.kv;
    std::size_t kept = is_held(before, n) ? n : 0;
    for (std::size_t i = before.num_blocks(); i > blocks_for(kept); --i) drop_last(before, i - 1);
    if (kept % kBlockSize != 0) {
      const std::size_t last = full_blocks(n);
      bool shared = false;
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        shared |= groups_[g].refs[before.groups[g].blocks[last].value] > 1;
      }
      if (shared) {
        kept = is_held(before, last * kBlockSize) ? last * kBlockSize : 0;
        for (std::size_t i = last + 1; i > blocks_for(kept); --i) drop_last(before, i - 1);
      } else {
        for (std::size_t g = 0; g < groups_.size(); ++g) {
          groups_[g].content.erase(before.groups[g].blocks[last].value);
        }
      }
    }
    ASSERT_EQ(manager_.trim(s.kv, static_cast<std::int32_t>(n)), static_cast<std::int32_t>(kept));
    ASSERT_EQ(s.kv.num_blocks(), blocks_for(kept));
    s.tokens.resize(kept);
  }

  void release(std::size_t index) {
    Live& s = live_[index];
    for (std::size_t i = s.kv.num_blocks(); i > 0; --i) drop_last(s.kv, i - 1);
    manager_.release(s.kv);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void reset() {
    bool all_free = true;
    snapshots_.reset();
    for (GroupModel& g : groups_) {
      for (const std::int32_t block : g.cached) g.content.erase(block);
      g.recycled.splice(g.recycled.end(), g.cached);
      all_free &= g.num_free() == static_cast<std::size_t>(g.num_blocks);
    }
    ASSERT_EQ(manager_.reset(), all_free);
  }

  void check() {
    std::vector<const SequenceKv*> tables;
    for (const Live& s : live_) tables.push_back(&s.kv);
    const Status status = manager_.check_integrity(tables);
    ASSERT_TRUE(status) << status.error().message;
    std::size_t free = 0, cached = 0;
    for (const GroupModel& g : groups_) {
      free += g.num_free();
      cached += g.cached.size();
    }
    ASSERT_EQ(manager_.stats().free_blocks, static_cast<std::int64_t>(free));
    ASSERT_EQ(manager_.stats().cached_free_blocks, static_cast<std::int64_t>(cached));
  }

  std::mt19937 random_;
  KvCacheManager manager_;
  std::vector<GroupModel> groups_;
  SnapshotModel snapshots_;
  std::vector<Live> live_;
};

void run_histories(const std::vector<KvCacheOptions::Group>& groups, PrefixHash hash,
                   const SnapshotModel& snapshots = {}) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    History history(seed, groups, hash, snapshots);
    for (int i = 0; i < 400; ++i) {
      history.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    history.finish();
  }
}

TEST(KvCacheModel, OneGroup) { run_histories({{24}}, default_prefix_hash); }
TEST(KvCacheModel, TwoGroupsOfDifferentSize) { run_histories({{24}, {17}}, default_prefix_hash); }
TEST(KvCacheModel, PlentyOfBlocks) { run_histories({{500}}, default_prefix_hash); }
TEST(KvCacheModel, Windows) {
  for (const std::int32_t window : {1, 3, 4, 5}) {
    run_histories({{16, window}}, default_prefix_hash);
    run_histories({{24}, {16, window}}, default_prefix_hash);
    run_histories({{14, window}, {24}, {500, 7}}, default_prefix_hash);
  }
}
TEST(KvCacheModel, Snapshots) {
  for (const std::int32_t count : {1, 3, 40}) {
    for (const std::int32_t interval : {2, 4, 6}) {
      run_histories({{24}}, default_prefix_hash, {count, interval});
      run_histories({{24}, {16, 3}}, default_prefix_hash, {count, interval});
      run_histories({}, default_prefix_hash, {count, interval});  // nothing but states
    }
  }
}
TEST(KvCacheModel, AllHashesCollide) {
  run_histories({{24}, {20}, {18, 3}},
                [](std::uint64_t, std::span<const TokenId>) -> std::uint64_t { return 0; });
}
TEST(KvCacheModel, MostHashesCollide) {
  run_histories({{24}, {18, 4}}, [](std::uint64_t parent, std::span<const TokenId> tokens) {
    return default_prefix_hash(parent, tokens) % 3;
  });
}

}  // namespace
}  // namespace quire
