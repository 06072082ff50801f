// The slow, obvious models that kv_cache_model_test.cpp compares the KV cache with: lists of blocks
// and of snapshots, and the whole prefix that each one holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace quire::naive {

inline constexpr std::int32_t kBlockSize = 2;
using Prefix = std::pair<std::uint64_t, std::vector<TokenId>>;  // salt, tokens from the start

inline std::size_t full_blocks(std::size_t num_tokens) { return num_tokens / kBlockSize; }
inline std::size_t blocks_for(std::size_t num_tokens) {
  return (num_tokens + kBlockSize - 1) / kBlockSize;
}

inline Prefix prefix(std::uint64_t salt, const std::vector<TokenId>& tokens,
                     std::size_t num_blocks) {
  const auto n = static_cast<std::ptrdiff_t>(num_blocks) * kBlockSize;
  return {salt, {tokens.begin(), tokens.begin() + n}};
}

// One group's blocks.
struct GroupModel {
  GroupModel(std::int32_t n, std::int32_t w) : num_blocks(n), window(w) {}

  // Whether a sequence with num_computed tokens must hold its block i.
  bool needs(std::size_t i, std::size_t num_computed) const {
    if (window == 0 || (i + 2) * kBlockSize > num_computed) return true;  // the last full one too
    const auto last = static_cast<std::int32_t>((i + 1) * kBlockSize) - 1;
    return last > static_cast<std::int32_t>(num_computed) - window;
  }

  std::size_t num_free() const {
    return recycled.size() + cached.size() + static_cast<std::size_t>(num_blocks - next_untouched);
  }
  std::int32_t take() {
    std::int32_t block = 0;
    if (!recycled.empty()) {
      block = recycled.back();
      recycled.pop_back();
    } else if (next_untouched < num_blocks) {
      block = next_untouched++;
    } else {
      block = cached.front();
      cached.pop_front();
      content.erase(block);
    }
    refs[block] = 1;
    return block;
  }
  void hold(std::int32_t block) {
    cached.remove(block);
    ++refs[block];
  }
  void drop(std::int32_t block) {
    if (--refs[block] > 0) return;
    content.contains(block) ? cached.push_back(block) : recycled.push_back(block);
  }
  bool has(const Prefix& wanted) const {
    return std::ranges::any_of(content, [&](const auto& entry) { return entry.second == wanted; });
  }

  std::int32_t num_blocks, window, next_untouched = 0;
  std::list<std::int32_t> recycled, cached;
  std::map<std::int32_t, std::int32_t> refs;
  std::map<std::int32_t, Prefix> content;  // of indexed blocks
};

// Snapshots of recurrent state: which prefix each holds, the one to be evicted first in front.
struct SnapshotModel {
  SnapshotModel() = default;
  SnapshotModel(std::int32_t n, std::int32_t tokens) : count(n), interval(tokens) {}

  std::int32_t count = 0, interval = kBlockSize, next_untouched = 0;
  std::list<std::int32_t> recycled, cached;
  std::map<std::int32_t, Prefix> content;  // of those that can be used or are being written
  std::vector<std::int32_t> taken;

  bool is_position(std::size_t num_tokens) const {
    return count > 0 && num_tokens > 0 && num_tokens % static_cast<std::size_t>(interval) == 0;
  }
  std::int32_t find(const Prefix& wanted) const {
    for (const std::int32_t s : cached) {
      if (content.at(s) == wanted) return s;
    }
    return -1;
  }
  void touch(std::int32_t snapshot) {
    cached.remove(snapshot);
    cached.push_back(snapshot);
  }
  std::int32_t take(const Prefix& prefix) {
    for (const auto& [snapshot, held] : content) {
      if (held == prefix) return -1;
    }
    std::int32_t snapshot = -1;
    if (!recycled.empty()) {
      snapshot = recycled.back();
      recycled.pop_back();
    } else if (next_untouched < count) {
      snapshot = next_untouched++;
    } else if (!cached.empty()) {
      snapshot = cached.front();
      cached.pop_front();
    } else {
      return -1;
    }
    content[snapshot] = prefix;
    taken.push_back(snapshot);
    return snapshot;
  }
  void publish() {
    for (const std::int32_t snapshot : taken) {
      cached.push_back(snapshot);
      const Prefix& deepest = content.at(snapshot);
      for (std::size_t n = deepest.second.size(); (n -= kBlockSize) > 0;) {
        Prefix shallower = deepest;
        shallower.second.resize(n);
        if (const std::int32_t other = find(shallower); other >= 0) touch(other);
      }
    }
    taken.clear();
  }
  void reset() {
    for (const std::int32_t snapshot : cached) content.erase(snapshot);
    recycled.splice(recycled.end(), cached);
  }
};

}  // namespace quire::naive
