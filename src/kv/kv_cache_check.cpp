// What must hold between the KV cache's pools, its prefix index and the sequences' tables; see
// kv_cache_manager.h.
#include "kv/kv_cache_manager.h"

namespace quire {

Status KvCacheManager::check_sequence(const SequenceKv& sequence) const {
  if (sequence.groups.empty()) return {};
  if (sequence.groups.size() != pools_.size()) {
    return make_error(ErrorCode::kInternal, "a sequence has {} block tables for {} groups",
                      sequence.groups.size(), pools_.size());
  }
  // The nodes of its indexed blocks: the last one's, and the way up from there.
  std::vector<NodeId> nodes(static_cast<std::size_t>(sequence.num_indexed_blocks), kNoNode);
  if (nodes.size() > sequence.num_blocks() ||
      (!nodes.empty() && sequence.groups[0].num_held() == 0)) {
    return make_error(ErrorCode::kInternal, "a sequence has {} indexed blocks of {}", nodes.size(),
                      sequence.num_blocks());
  }
  NodeId node =
      nodes.empty() ? kNoNode : index_.node_of(0, sequence.groups[0].blocks[nodes.size() - 1]);
  for (std::size_t i = nodes.size(); i-- > 0; node = index_.parent_of(node)) {
    if (node == kNoNode || index_.salt_of(node) != sequence.salt) {
      return make_error(ErrorCode::kInternal,
                        "block {} of a sequence does not follow its parent in the index", i);
    }
    nodes[i] = node;
  }
  if (node != kNoNode)
    return make_error(ErrorCode::kInternal, "a sequence's blocks have a foreign parent");
  for (std::size_t g = 0; g < pools_.size(); ++g) QUIRE_TRY(check_table(sequence, g, nodes));
  return {};
}

// nodes: of the indexed blocks.
Status KvCacheManager::check_table(const SequenceKv& sequence, std::size_t group,
                                   std::span<const NodeId> nodes) const {
  const auto& table = sequence.groups[group];
  if (table.blocks.size() != sequence.num_blocks()) {
    return make_error(ErrorCode::kInternal, "a sequence's tables differ in length");
  }
  if (table.num_freed > 0 && options_.groups[group].window == 0) {
    return make_error(ErrorCode::kInternal, "a sequence has freed blocks of group {}: no window",
                      group);
  }
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const BlockId block = table.blocks[i];
    const bool freed = i < static_cast<std::size_t>(table.num_freed);
    if (freed != (block == kNoBlock)) {
      return make_error(ErrorCode::kInternal, "group {}: {} blocks freed, entry {} is block {}",
                        group, table.num_freed, i, block.value);
    }
    // Blocks that are still written to belong to one sequence and are not in the index.
    const NodeId expected = i < nodes.size() ? nodes[i] : kNoNode;
    if (!freed && index_.node_of(group, block) != expected) {
      return make_error(ErrorCode::kInternal, "group {} block {}: node {} in the index, not {}",
                        group, block.value, index_.node_of(group, block).value, expected.value);
    }
  }
  return {};
}

Status KvCacheManager::check_integrity(std::span<const SequenceKv* const> live) const {
  QUIRE_TRY(index_.check_integrity());
  QUIRE_TRY(snapshots_.check_integrity(index_));
  std::vector<std::vector<std::int32_t>> holders(pools_.size());
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    QUIRE_TRY(pools_[g].check_integrity());
    holders[g].resize(static_cast<std::size_t>(pools_[g].num_blocks()));
  }
  for (const SequenceKv* sequence : live) {
    QUIRE_TRY(check_sequence(*sequence));
    for (std::size_t g = 0; g < sequence->groups.size(); ++g) {
      for (const BlockId block : sequence->groups[g].blocks) {
        if (block != kNoBlock) ++holders[g][static_cast<std::size_t>(block.value)];
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
