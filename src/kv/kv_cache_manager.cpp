#include "kv/kv_cache_manager.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

std::vector<std::int32_t> blocks_per_group(const KvCacheOptions& options) {
  std::vector<std::int32_t> result;
  result.reserve(options.groups.size() + 1);
  for (const auto& group : options.groups) result.push_back(group.num_blocks);
  result.push_back(options.num_snapshots);
  return result;
}

}  // namespace

KvCacheManager::KvCacheManager(KvCacheOptions options)
    : options_(std::move(options)),
      index_(options_.block_size, blocks_per_group(options_), options_.hash),
      snapshots_(
          options_.enable_prefix_caching && options_.recurrent_state ? options_.num_snapshots : 0,
          options_.snapshot_interval, options_.groups.size()) {
  QUIRE_CHECK(options_.block_size > 0);
  QUIRE_CHECK(snapshots_.count() == 0 || options_.snapshot_interval % options_.block_size == 0,
              "a snapshot every {} tokens, in blocks of {}", options_.snapshot_interval,
              options_.block_size);
  if ((options_.groups.empty() || options_.recurrent_state) && snapshots_.count() == 0) {
    options_.enable_prefix_caching = false;
  }
  for (auto& group : options_.groups) {
    QUIRE_CHECK(!group.recurrent, "recurrent KV groups are not built yet");
    // The last full block is always held: it is the parent of the next one in the prefix index.
    if (group.window > 0) group.window = std::max(group.window, options_.block_size + 1);
    pools_.emplace_back(group.num_blocks);
  }
}

std::int32_t KvCacheManager::blocks_for(std::int32_t num_tokens) const {
  return (num_tokens + options_.block_size - 1) / options_.block_size;
}

// The first block that a query at num_computed or later reaches.
std::int32_t KvCacheManager::first_needed(std::size_t group, std::int32_t num_computed) const {
  const std::int32_t window = options_.groups[group].window;
  if (window == 0) return 0;
  return std::max(0, num_computed - window + 1) / options_.block_size;
}

// The most blocks held at once on the way from num_computed to num_tokens: a step reaches from its
// first query's window to its last position.
std::int32_t KvCacheManager::peak_blocks(std::size_t group, std::int32_t num_computed,
                                         std::int32_t num_tokens) const {
  const std::int32_t all = blocks_for(num_tokens), window = options_.groups[group].window;
  if (window == 0) return all;
  const std::int32_t step = std::min(options_.max_step_tokens, num_tokens - num_computed);
  const std::int64_t reach = std::int64_t{window} - 1 + step;
  // Wherever in a block it begins.
  const std::int64_t most = (reach - 1 + options_.block_size - 1) / options_.block_size + 1;
  return static_cast<std::int32_t>(std::min<std::int64_t>(all, most));
}

// Whether all that a query at num_computed reaches is still held.
bool KvCacheManager::reaches_back(const SequenceKv& sequence, std::int32_t num_computed) const {
  if (num_computed == 0) return true;
  for (std::size_t g = 0; g < sequence.groups.size(); ++g) {
    if (sequence.groups[g].num_freed > first_needed(g, num_computed)) return false;
  }
  return true;
}

// How many blocks of the tokens can be taken; fills in the nodes of these, and maybe more.
std::int32_t KvCacheManager::longest_match(const SequenceKv& sequence,
                                           std::span<const TokenId> tokens,
                                           std::vector<NodeId>& nodes) const {
  const auto max_blocks = static_cast<std::int32_t>((tokens.size() - 1) /
                                                    block_size());  // one token is always computed
  std::vector<std::int32_t> run_begin(pools_.size(), 0);  // of the blocks present up to here
  std::int32_t longest = 0;
  for (std::int32_t end = 1; end <= max_blocks; ++end) {
    const NodeId node = index_.find(nodes.empty() ? kNoNode : nodes.back(), sequence.salt,
                                    tokens.subspan(nodes.size() * block_size(), block_size()));
    if (node == kNoNode) break;
    nodes.push_back(node);
    bool everywhere = true;  // a hit must be valid in all groups
    for (std::size_t g = 0; g < pools_.size(); ++g) {
      if (index_.block(node, g) == kNoBlock) {
        if (options_.groups[g].window == 0) return longest;
        run_begin[g] = end;
      }
      everywhere &= run_begin[g] <= first_needed(g, end * options_.block_size);
    }
    if (snapshots_.count() > 0) {
      everywhere &= snapshots_.is_position(end * options_.block_size) &&
                    snapshots_.find(index_, node) != kNoBlock;
    }
    if (everywhere) longest = end;
  }
  return longest;
}

std::int32_t KvCacheManager::match(SequenceKv& sequence, std::span<const TokenId> tokens) {
  QUIRE_CHECK(sequence.num_blocks() == 0, "match() is for a sequence without blocks");
  if (!options_.enable_prefix_caching || tokens.empty()) return 0;
  sequence.groups.resize(pools_.size());
  std::vector<NodeId> nodes;
  const std::int32_t hit_blocks = longest_match(sequence, tokens, nodes);
  const std::int32_t hit_tokens = hit_blocks * options_.block_size;
  if (!pools_.empty()) sequence.num_indexed_blocks = hit_blocks;
  if (hit_blocks > 0 && snapshots_.count() > 0) {
    sequence.snapshot = snapshots_.use(index_, nodes[static_cast<std::size_t>(hit_blocks) - 1]);
  }
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    auto& table = sequence.groups[g];
    table.num_freed = first_needed(g, hit_tokens);
    table.blocks.assign(static_cast<std::size_t>(sequence.num_indexed_blocks), kNoBlock);
    for (auto i = static_cast<std::size_t>(table.num_freed); i < table.blocks.size(); ++i) {
      table.blocks[i] = index_.block(nodes[i], g);
      pools_[g].add_ref(table.blocks[i]);
    }
  }
  sequence.uncounted_query_tokens = static_cast<std::int32_t>(tokens.size());
  sequence.uncounted_hit_tokens = hit_tokens;
  return hit_tokens;
}

bool KvCacheManager::could_fit(std::int32_t num_tokens) const {
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (peak_blocks(g, 0, num_tokens) > pools_[g].num_blocks()) return false;
  }
  return true;
}

std::int32_t KvCacheManager::missing_blocks(const SequenceKv& sequence, std::size_t group,
                                            std::int32_t num_computed,
                                            std::int32_t num_tokens) const {
  const std::int32_t held = sequence.groups.empty() ? 0 : sequence.groups[group].num_held();
  return std::max(0, peak_blocks(group, num_computed, num_tokens) - held);
}

bool KvCacheManager::can_grow(const SequenceKv& sequence, std::int32_t num_computed,
                              std::int32_t num_tokens,
                              std::span<const std::int32_t> headroom) const {
  QUIRE_CHECK(headroom.size() == pools_.size());
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const std::int64_t missing = missing_blocks(sequence, g, num_computed, num_tokens);
    if (missing + headroom[g] > pools_[g].num_free()) return false;
  }
  return true;
}

void KvCacheManager::free_unreachable(SequenceKv& sequence, std::int32_t num_computed) {
  for (std::size_t g = 0; g < sequence.groups.size(); ++g) {
    auto& table = sequence.groups[g];
    const std::int32_t end =
        std::min(first_needed(g, num_computed), static_cast<std::int32_t>(table.blocks.size()));
    for (std::int32_t i = end; i-- > table.num_freed;) {  // as in release(): the first live longest
      BlockId& block = table.blocks[static_cast<std::size_t>(i)];
      give_back(g, std::exchange(block, kNoBlock));
    }
    table.num_freed = std::max(table.num_freed, end);
  }
}

bool KvCacheManager::try_grow(SequenceKv& sequence, std::int32_t num_tokens) {
  const auto wanted = static_cast<std::size_t>(blocks_for(num_tokens));
  const std::size_t missing = wanted - std::min(wanted, sequence.num_blocks());
  const bool room = std::ranges::all_of(pools_, [&](const BlockPool& pool) {
    return missing <= static_cast<std::size_t>(pool.num_free());
  });
  if (!room) return false;
  sequence.groups.resize(pools_.size());
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    auto& blocks = sequence.groups[g].blocks;
    while (blocks.size() < wanted) blocks.push_back(take_block(g));
  }
  query_tokens_ += std::exchange(sequence.uncounted_query_tokens, 0);
  hit_tokens_ += std::exchange(sequence.uncounted_hit_tokens, 0);
  return true;
}

void KvCacheManager::reserve(SequenceKv& sequence, std::int32_t num_tokens) const {
  sequence.groups.resize(pools_.size());
  for (auto& table : sequence.groups)
    table.blocks.reserve(static_cast<std::size_t>(blocks_for(num_tokens)));
}

void KvCacheManager::commit(SequenceKv& sequence, std::span<const TokenId> tokens,
                            std::int32_t num_tokens) {
  if (!options_.enable_prefix_caching || pools_.empty()) return;
  const std::size_t full_blocks = static_cast<std::size_t>(num_tokens) / block_size();
  QUIRE_CHECK(full_blocks <= sequence.num_blocks() && full_blocks * block_size() <= tokens.size());
  std::vector<BlockId>& blocks = scratch_;
  blocks.resize(pools_.size());
  for (auto i = static_cast<std::size_t>(sequence.num_indexed_blocks); i < full_blocks; ++i) {
    const NodeId parent = i == 0 ? kNoNode : index_.node_of(0, sequence.groups[0].blocks[i - 1]);
    for (std::size_t g = 0; g < pools_.size(); ++g) blocks[g] = sequence.groups[g].blocks[i];
    planned_.push_back(index_.enter(parent, sequence.salt,
                                    tokens.subspan(i * block_size(), block_size()), blocks));
    ++sequence.num_indexed_blocks;
  }
}

BlockId KvCacheManager::take_snapshot(const SequenceKv& sequence, std::span<const TokenId> tokens,
                                      std::int32_t num_tokens) {
  if (!snapshots_.is_position(num_tokens) || tokens.size() < static_cast<std::size_t>(num_tokens)) {
    return kNoBlock;
  }
  const auto last = static_cast<std::size_t>(num_tokens) / block_size() - 1;
  const auto prefix = tokens.first(static_cast<std::size_t>(num_tokens));
  const bool has_blocks = !pools_.empty();
  NodeId node = has_blocks ? index_.node_of(0, sequence.groups[0].blocks[last])
                           : index_.find_path(sequence.salt, prefix);
  if (node == kNoNode ? has_blocks : snapshots_.has(index_, node)) return kNoBlock;
  const BlockId snapshot = snapshots_.take(index_);
  if (snapshot == kNoBlock) return kNoBlock;
  // What was evicted may have taken nodes of this path along.
  if (!has_blocks) node = index_.make_path(sequence.salt, prefix);
  index_.attach(node, pools_.size(), snapshot);
  return snapshot;
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
  const bool room = std::ranges::all_of(pools_, [&](const BlockPool& pool) {
    return tail_tokens == 0 || pool.num_free() > 0;  // one block per group
  });
  if (!room || !reaches_back(from, num_tokens)) return false;

  to.salt = from.salt;
  to.groups.resize(pools_.size());
  to.num_indexed_blocks = std::min(from.num_indexed_blocks, full_blocks);
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    to.groups[g].num_freed = first_needed(g, num_tokens);
    to.groups[g].blocks.assign(static_cast<std::size_t>(full_blocks), kNoBlock);
    for (auto i = static_cast<std::size_t>(to.groups[g].num_freed); i < to.groups[g].blocks.size();
         ++i) {
      pools_[g].add_ref(from.groups[g].blocks[i]);
      to.groups[g].blocks[i] = from.groups[g].blocks[i];
    }
    if (tail_tokens == 0) continue;
    const BlockId source = from.groups[g].blocks[static_cast<std::size_t>(full_blocks)];
    const BlockId target = take_block(g);
    to.groups[g].blocks.push_back(target);
    copies->push_back({static_cast<std::int32_t>(g), source, target, tail_tokens});
  }
  return true;
}

bool KvCacheManager::can_fork(std::int32_t num_tokens,
                              std::span<const std::int32_t> headroom) const {
  QUIRE_CHECK(headroom.size() == pools_.size());
  const std::int32_t copied = num_tokens % options_.block_size == 0 ? 0 : 1;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (copied + headroom[g] > pools_[g].num_free()) return false;
  }
  return true;
}

std::int32_t KvCacheManager::trim(SequenceKv& sequence, std::int32_t num_tokens) {
  if (!reaches_back(sequence, num_tokens)) num_tokens = 0;
  const auto wanted = static_cast<std::size_t>(blocks_for(num_tokens));
  drop_blocks(sequence, wanted);
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
      num_tokens = full_blocks * options_.block_size;
      if (!reaches_back(sequence, num_tokens)) num_tokens = 0;
      drop_blocks(sequence, static_cast<std::size_t>(blocks_for(num_tokens)));
    } else if (sequence.num_indexed_blocks > full_blocks) {
      for (std::size_t g = 0; g < pools_.size(); ++g) {
        index_.remove(g, sequence.groups[g].blocks.back());
      }
    }
  }
  sequence.num_indexed_blocks =
      std::min(sequence.num_indexed_blocks, num_tokens / options_.block_size);
  return num_tokens;
}

void KvCacheManager::release(SequenceKv& sequence) {
  drop_blocks(sequence, 0);
  sequence.num_indexed_blocks = 0;
  sequence.snapshot = kNoBlock;
  sequence.uncounted_query_tokens = sequence.uncounted_hit_tokens = 0;
}

bool KvCacheManager::reset() {
  bool all_free = true;
  snapshots_.reset(index_);
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
  stats.num_snapshots = snapshots_.count();
  stats.cached_snapshots = snapshots_.num_cached();
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

// Tail first: prefixes live longest.
void KvCacheManager::drop_blocks(SequenceKv& sequence, std::size_t num_kept) {
  for (std::size_t g = 0; g < sequence.groups.size(); ++g) {
    auto& table = sequence.groups[g];
    while (table.blocks.size() > num_kept) {
      if (table.blocks.back() != kNoBlock) give_back(g, table.blocks.back());
      table.blocks.pop_back();
    }
    table.num_freed = std::min(table.num_freed, static_cast<std::int32_t>(num_kept));
  }
}

}  // namespace quire
