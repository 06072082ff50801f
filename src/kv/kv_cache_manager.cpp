#include "kv/kv_cache_manager.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

std::vector<std::int32_t> blocks_per_group(const KvCacheOptions& options) {
  std::vector<std::int32_t> result;
  for (const auto& group : options.groups) result.push_back(group.num_blocks);
  return result;
}

}  // namespace

KvCacheManager::KvCacheManager(KvCacheOptions options)
    : options_(std::move(options)),
      index_(options_.block_size, blocks_per_group(options_), options_.hash) {
  QUIRE_CHECK(options_.block_size > 0);
  if (options_.groups.empty()) options_.enable_prefix_caching = false;
  for (const auto& group : options_.groups) {
    QUIRE_CHECK(!group.recurrent, "recurrent KV groups are not built yet");
    pools_.emplace_back(group.num_blocks);
  }
}

std::int32_t KvCacheManager::match(SequenceKv& sequence, std::span<const TokenId> tokens) {
  QUIRE_CHECK(sequence.num_blocks() == 0, "match() is for a sequence without blocks");
  if (!options_.enable_prefix_caching || tokens.empty()) return 0;
  sequence.groups.resize(pools_.size());
  const std::size_t max_blocks =
      (tokens.size() - 1) / block_size();  // one token is always computed
  NodeId node = kNoNode;
  for (std::size_t i = 0; i < max_blocks; ++i) {
    node = index_.find(node, sequence.salt, tokens.subspan(i * block_size(), block_size()));
    if (node == kNoNode) break;
    // A hit must be valid in all groups.
    bool everywhere = true;
    for (std::size_t g = 0; g < pools_.size(); ++g) everywhere &= index_.block(node, g) != kNoBlock;
    if (!everywhere) break;
    for (std::size_t g = 0; g < pools_.size(); ++g) {
      pools_[g].add_ref(index_.block(node, g));
      sequence.groups[g].blocks.push_back(index_.block(node, g));
    }
    ++sequence.num_indexed_blocks;
  }
  const std::int32_t hit_tokens = sequence.num_indexed_blocks * options_.block_size;
  sequence.uncounted_query_tokens = static_cast<std::int32_t>(tokens.size());
  sequence.uncounted_hit_tokens = hit_tokens;
  return hit_tokens;
}

std::int32_t KvCacheManager::blocks_for(std::int32_t num_tokens) const {
  return (num_tokens + options_.block_size - 1) / options_.block_size;
}

bool KvCacheManager::could_fit(std::int32_t num_tokens) const {
  return std::ranges::all_of(
      pools_, [&](const BlockPool& pool) { return blocks_for(num_tokens) <= pool.num_blocks(); });
}

bool KvCacheManager::can_grow(const SequenceKv& sequence, std::int32_t num_tokens,
                              std::int32_t headroom) const {
  const std::int32_t held = static_cast<std::int32_t>(sequence.num_blocks());
  const std::int32_t missing = std::max(0, blocks_for(num_tokens) - held);
  return std::ranges::all_of(
      pools_, [&](const BlockPool& pool) { return missing + headroom <= pool.num_free(); });
}

bool KvCacheManager::try_grow(SequenceKv& sequence, std::int32_t num_tokens) {
  if (!can_grow(sequence, num_tokens, 0)) return false;
  sequence.groups.resize(pools_.size());
  const std::size_t wanted = static_cast<std::size_t>(blocks_for(num_tokens));
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    auto& blocks = sequence.groups[g].blocks;
    while (blocks.size() < wanted) blocks.push_back(take_block(g));
  }
  query_tokens_ += std::exchange(sequence.uncounted_query_tokens, 0);
  hit_tokens_ += std::exchange(sequence.uncounted_hit_tokens, 0);
  return true;
}

void KvCacheManager::commit(SequenceKv& sequence, std::span<const TokenId> tokens,
                            std::int32_t num_tokens) {
  if (!options_.enable_prefix_caching) return;
  const std::size_t full_blocks = static_cast<std::size_t>(num_tokens) / block_size();
  QUIRE_CHECK(full_blocks <= sequence.num_blocks() && full_blocks * block_size() <= tokens.size());
  std::vector<BlockId> blocks(pools_.size());
  for (auto i = static_cast<std::size_t>(sequence.num_indexed_blocks); i < full_blocks; ++i) {
    const NodeId parent = i == 0 ? kNoNode : index_.node_of(0, sequence.groups[0].blocks[i - 1]);
    for (std::size_t g = 0; g < pools_.size(); ++g) blocks[g] = sequence.groups[g].blocks[i];
    index_.enter(parent, sequence.salt, tokens.subspan(i * block_size(), block_size()), blocks);
    ++sequence.num_indexed_blocks;
  }
}

bool KvCacheManager::fork(const SequenceKv& from, SequenceKv& to, std::int32_t num_tokens,
                          std::vector<Copy>* copies) {
  QUIRE_CHECK(to.num_blocks() == 0, "fork() is into a sequence without blocks");
  const std::int32_t full_blocks = num_tokens / options_.block_size;
  const std::int32_t tail_tokens = num_tokens % options_.block_size;
  if (pools_.empty()) {
    to.salt = from.salt;
    return true;
  }
  QUIRE_CHECK(blocks_for(num_tokens) <= static_cast<std::int32_t>(from.num_blocks()));
  QUIRE_CHECK(from.num_indexed_blocks >= full_blocks || !options_.enable_prefix_caching,
              "commit() comes before fork(): shared blocks are entered in the index once");
  if (tail_tokens > 0 && !can_grow(to, 1, 0)) return false;  // one block per group

  to.salt = from.salt;
  to.groups.resize(pools_.size());
  to.num_indexed_blocks = std::min(from.num_indexed_blocks, full_blocks);
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(full_blocks); ++i) {
      pools_[g].add_ref(from.groups[g].blocks[i]);
      to.groups[g].blocks.push_back(from.groups[g].blocks[i]);
    }
    if (tail_tokens == 0) continue;
    const BlockId source = from.groups[g].blocks[static_cast<std::size_t>(full_blocks)];
    const BlockId target = take_block(g);
    to.groups[g].blocks.push_back(target);
    copies->push_back({static_cast<std::int32_t>(g), source, target, tail_tokens});
  }
  return true;
}

std::int32_t KvCacheManager::trim(SequenceKv& sequence, std::int32_t num_tokens) {
  const auto wanted = static_cast<std::size_t>(blocks_for(num_tokens));
  while (sequence.num_blocks() > wanted) pop_block(sequence);
  const std::int32_t full_blocks = num_tokens / options_.block_size;
  const bool ends_inside = num_tokens % options_.block_size != 0 && sequence.num_blocks() == wanted;
  if (ends_inside) {
    // The rest of the last block will be written anew: it must be this sequence's own, and not in
    // the index.
    bool shared = false;
    for (std::size_t g = 0; g < pools_.size(); ++g) {
      shared |= pools_[g].refs(sequence.groups[g].blocks.back()) > 1;
    }
    if (shared) {
      pop_block(sequence);
      num_tokens = full_blocks * options_.block_size;
    } else if (sequence.num_indexed_blocks > full_blocks) {
      for (std::size_t g = 0; g < pools_.size(); ++g) {
        index_.remove(g, sequence.groups[g].blocks.back());
      }
    }
  }
  sequence.num_indexed_blocks = std::min(sequence.num_indexed_blocks, full_blocks);
  return num_tokens;
}

void KvCacheManager::release(SequenceKv& sequence) {
  while (sequence.num_blocks() > 0) pop_block(sequence);  // tail first: prefixes live longest
  sequence.num_indexed_blocks = 0;
  sequence.uncounted_query_tokens = sequence.uncounted_hit_tokens = 0;
}

bool KvCacheManager::reset() {
  bool all_free = true;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    BlockPool& pool = pools_[g];
    for (BlockId block = pool.oldest_cached(); block != kNoBlock; block = pool.oldest_cached()) {
      index_.remove(g, block);
      pool.forget(block);
    }
    all_free &= pool.num_free() == pool.num_blocks();
  }
  return all_free;
}

KvStats KvCacheManager::stats() const {
  KvStats stats;
  for (const BlockPool& pool : pools_) {
    stats.num_blocks += pool.num_blocks();
    stats.free_blocks += pool.num_free();
    stats.cached_free_blocks += pool.num_cached();
  }
  stats.used_blocks = stats.num_blocks - stats.free_blocks;
  stats.query_tokens = query_tokens_;
  stats.hit_tokens = hit_tokens_;
  return stats;
}

BlockId KvCacheManager::take_block(std::size_t group) {
  const BlockId block = pools_[group].take();
  if (index_.node_of(group, block) != kNoNode) index_.remove(group, block);  // evicted
  return block;
}

void KvCacheManager::give_back(std::size_t group, BlockId block) {
  pools_[group].drop_ref(block, index_.node_of(group, block) != kNoNode);
}

void KvCacheManager::pop_block(SequenceKv& sequence) {
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    give_back(g, sequence.groups[g].blocks.back());
    sequence.groups[g].blocks.pop_back();
  }
}

Status KvCacheManager::check_sequence(const SequenceKv& sequence) const {
  if (sequence.groups.empty()) return {};
  if (sequence.groups.size() != pools_.size()) {
    return make_error(ErrorCode::kInternal, "a sequence has {} block tables for {} groups",
                      sequence.groups.size(), pools_.size());
  }
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const auto& blocks = sequence.groups[g].blocks;
    if (blocks.size() != sequence.num_blocks()) {
      return make_error(ErrorCode::kInternal, "a sequence's tables differ in length");
    }
    NodeId parent = kNoNode;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i >= static_cast<std::size_t>(sequence.num_indexed_blocks)) {
        // Blocks that are still written to belong to one sequence and are not in the index.
        if (index_.node_of(g, blocks[i]) != kNoNode && options_.enable_prefix_caching) {
          return make_error(ErrorCode::kInternal, "block {} is indexed before its time",
                            blocks[i].value);
        }
        continue;
      }
      const NodeId node = index_.node_of(g, blocks[i]);
      if (node == kNoNode || index_.parent_of(node) != parent ||
          index_.salt_of(node) != sequence.salt) {
        return make_error(ErrorCode::kInternal, "block {} does not follow its parent in the index",
                          blocks[i].value);
      }
      parent = node;
    }
  }
  return {};
}

Status KvCacheManager::check_integrity(std::span<const SequenceKv* const> live) const {
  QUIRE_TRY(index_.check_integrity());
  std::vector<std::vector<std::int32_t>> holders(pools_.size());
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    QUIRE_TRY(pools_[g].check_integrity());
    holders[g].resize(static_cast<std::size_t>(pools_[g].num_blocks()));
  }
  for (const SequenceKv* sequence : live) {
    QUIRE_TRY(check_sequence(*sequence));
    for (std::size_t g = 0; g < sequence->groups.size(); ++g) {
      for (const BlockId block : sequence->groups[g].blocks) {
        ++holders[g][static_cast<std::size_t>(block.value)];
      }
    }
  }
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    for (std::int32_t i = 0; i < pools_[g].num_blocks(); ++i) {
      const BlockId block(i);
      const std::int32_t held = holders[g][static_cast<std::size_t>(i)];
      if (pools_[g].refs(block) != held) {
        return make_error(ErrorCode::kInternal, "group {} block {}: {} references, {} holders", g,
                          i, pools_[g].refs(block), held);
      }
      const bool indexed = index_.node_of(g, block) != kNoNode;
      if (held == 0 && indexed != pools_[g].is_cached(block)) {
        return make_error(ErrorCode::kInternal, "group {} block {}: free, indexed {}, cached {}", g,
                          i, indexed, !indexed);
      }
    }
  }
  return {};
}

}  // namespace quire
