#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace quire {

std::uint64_t default_prefix_hash(std::uint64_t parent_hash, std::span<const TokenId> tokens) {
  std::uint64_t hash = parent_hash ^ 0x9e3779b97f4a7c15u;
  for (const TokenId token : tokens) {
    // The multiply-and-shift step of splitmix64.
    hash = (hash ^ static_cast<std::uint32_t>(token)) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  return hash;
}

PrefixIndex::PrefixIndex(std::int32_t block_size, std::span<const std::int32_t> num_blocks,
                         PrefixHash hash)
    : block_size_(static_cast<std::size_t>(block_size)), hash_(hash) {
  std::size_t total = 1;
  for (const std::int32_t n : num_blocks) {
    entries_.emplace_back(static_cast<std::size_t>(n));
    total += static_cast<std::size_t>(n);
  }
  buckets_.resize(std::bit_ceil(2 * total), kNoNode);
  // Nothing is allocated as nodes come. The memory is committed as it is used.
  nodes_.reserve(total);
  unused_nodes_.reserve(total);
  tokens_.reserve(total * block_size_);
  first_blocks_.reserve(total * entries_.size());
}

std::span<const TokenId> PrefixIndex::tokens_of(NodeId node) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(node.value) * block_size_,
                                    block_size_);
}

std::uint64_t PrefixIndex::hash_of(NodeId parent, std::uint64_t salt,
                                   std::span<const TokenId> tokens) const {
  return hash_(parent == kNoNode ? salt : at(parent).hash, tokens);
}

NodeId PrefixIndex::find(NodeId parent, std::uint64_t salt, std::span<const TokenId> tokens) const {
  const std::uint64_t hash = hash_of(parent, salt, tokens);
  NodeId node = buckets_[hash & (buckets_.size() - 1)];
  for (; node != kNoNode; node = at(node).next_in_bucket) {
    const bool same = at(node).hash == hash && at(node).parent == parent && at(node).salt == salt &&
                      std::ranges::equal(tokens_of(node), tokens);
    if (same) return node;
  }
  return kNoNode;
}

BlockId PrefixIndex::block(NodeId node, std::size_t group) const {
  return first_blocks_[first_at(node, group)];
}

NodeId PrefixIndex::enter(NodeId parent, std::uint64_t salt, std::span<const TokenId> tokens,
                          std::span<const BlockId> blocks) {
  QUIRE_CHECK(tokens.size() == block_size_ && blocks.size() <= entries_.size());
  NodeId node = find(parent, salt, tokens);
  if (node == kNoNode) node = create(parent, salt, tokens);
  for (std::size_t g = 0; g < blocks.size(); ++g) attach(node, g, blocks[g]);
  return node;
}

void PrefixIndex::attach(NodeId node, std::size_t group, BlockId block) {
  BlockEntry& entry = at(group, block);
  QUIRE_CHECK(entry.node == kNoNode, "block {} is indexed already", block.value);
  BlockId& first = first_blocks_[first_at(node, group)];
  entry = {node, kNoBlock, first};
  if (first != kNoBlock) at(group, first).prev = block;
  first = block;
  ++at(node).num_blocks;
}

NodeId PrefixIndex::find_path(std::uint64_t salt, std::span<const TokenId> tokens) const {
  NodeId node = kNoNode;
  for (std::size_t i = 0; i + block_size_ <= tokens.size(); i += block_size_) {
    node = find(node, salt, tokens.subspan(i, block_size_));
    if (node == kNoNode) break;
  }
  return node;
}

NodeId PrefixIndex::make_path(std::uint64_t salt, std::span<const TokenId> tokens) {
  NodeId node = kNoNode;
  for (std::size_t i = 0; i + block_size_ <= tokens.size(); i += block_size_) {
    const auto block = tokens.subspan(i, block_size_);
    const NodeId next = find(node, salt, block);
    node = next == kNoNode ? create(node, salt, block) : next;
  }
  return node;
}

void PrefixIndex::remove(std::size_t group, BlockId block) {
  BlockEntry& entry = at(group, block);
  const NodeId node = entry.node;
  QUIRE_CHECK(node != kNoNode, "block {} is not indexed", block.value);
  (entry.prev == kNoBlock ? first_blocks_[first_at(node, group)] : at(group, entry.prev).next) =
      entry.next;
  if (entry.next != kNoBlock) at(group, entry.next).prev = entry.prev;
  entry = {};
  --at(node).num_blocks;
  erase_if_unused(node);
}

NodeId PrefixIndex::create(NodeId parent, std::uint64_t salt, std::span<const TokenId> tokens) {
  NodeId id(static_cast<std::int32_t>(nodes_.size()));
  if (unused_nodes_.empty()) {
    nodes_.emplace_back();
    tokens_.resize(tokens_.size() + block_size_);
    first_blocks_.resize(first_blocks_.size() + entries_.size(), kNoBlock);
  } else {
    id = unused_nodes_.back();
    unused_nodes_.pop_back();
  }
  const std::uint64_t hash = hash_of(parent, salt, tokens);
  NodeId& first = bucket_of(hash);
  at(id) = {parent, salt, hash, 0, 0, first, true};
  first = id;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(id.value) *
                                                  static_cast<std::ptrdiff_t>(block_size_));
  if (parent != kNoNode) ++at(parent).num_children;
  link_sibling(id);
  ++num_nodes_;
  return id;
}

// A node that goes may take its ancestors along.
void PrefixIndex::erase_if_unused(NodeId node) {
  while (node != kNoNode && at(node).num_blocks == 0 && at(node).num_children == 0) {
    const NodeId parent = at(node).parent;
    unlink_hash(node);
    unlink_sibling(node);
    at(node) = {};
    unused_nodes_.push_back(node);
    --num_nodes_;
    if (parent != kNoNode) --at(parent).num_children;
    node = parent;
  }
}

void PrefixIndex::link_sibling(NodeId node) {
  const NodeId parent = at(node).parent;
  NodeId& first = parent == kNoNode ? roots_.try_emplace(at(node).salt, kNoNode).first->second
                                    : at(parent).first_child;
  at(node).next_sibling = first;
  if (first != kNoNode) at(first).prev_sibling = node;
  first = node;
}

void PrefixIndex::unlink_sibling(NodeId node) {
  const NodeId prev = at(node).prev_sibling, next = at(node).next_sibling;
  if (next != kNoNode) at(next).prev_sibling = prev;
  if (prev != kNoNode) {
    at(prev).next_sibling = next;
  } else if (at(node).parent != kNoNode) {
    at(at(node).parent).first_child = next;
  } else if (next != kNoNode || at(node).salt == 0) {  // most requests have none: its entry stays
    roots_[at(node).salt] = next;
  } else {
    roots_.erase(at(node).salt);
  }
}

PrefixIndex::Partial PrefixIndex::find_partial(NodeId parent, std::uint64_t salt,
                                               std::span<const TokenId> tokens,
                                               const std::function<bool(NodeId)>& accepts) const {
  Partial best;
  const auto root = roots_.find(salt);
  NodeId node = parent != kNoNode      ? at(parent).first_child
                : root != roots_.end() ? root->second
                                       : kNoNode;
  for (int i = 0; i < kMaxSiblings && node != kNoNode; ++i, node = at(node).next_sibling) {
    const auto own = tokens_of(node);
    const auto shared = std::ranges::mismatch(own, tokens).in1 - own.begin();
    if (shared > best.num_tokens && accepts(node)) {
      best = {node, static_cast<std::int32_t>(shared)};
    }
  }
  return best;
}

void PrefixIndex::unlink_hash(NodeId node) {
  NodeId* link = &bucket_of(at(node).hash);
  while (*link != node) link = &at(*link).next_in_bucket;
  *link = at(node).next_in_bucket;
}

Status PrefixIndex::check_integrity() const {
  std::vector<std::int32_t> children(nodes_.size()), blocks(nodes_.size());
  std::size_t alive = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.alive) continue;
    ++alive;
    const NodeId id(static_cast<std::int32_t>(i));
    if (node.parent != kNoNode) {
      if (!at(node.parent).alive || at(node.parent).salt != node.salt) {
        return make_error(ErrorCode::kInternal, "prefix node {} has a dead or foreign parent", i);
      }
      ++children[static_cast<std::size_t>(node.parent.value)];
    }
    if (find(node.parent, node.salt, tokens_of(id)) != id) {
      return make_error(ErrorCode::kInternal, "prefix node {} is not found by its tokens", i);
    }
    for (std::size_t g = 0; g < entries_.size(); ++g) {
      for (BlockId b = block(id, g); b != kNoBlock; b = at(g, b).next) {
        if (at(g, b).node != id || ++blocks[i] > node.num_blocks) {
          return make_error(ErrorCode::kInternal, "prefix node {} lists block {} wrongly", i,
                            b.value);
        }
      }
    }
  }
  std::size_t siblings = 0;
  const auto count = [&](NodeId first, NodeId parent, std::uint64_t salt) {
    NodeId prev = kNoNode;
    for (NodeId n = first; n != kNoNode && siblings <= alive; n = at(n).next_sibling) {
      const bool fits = at(n).parent == parent && at(n).salt == salt && at(n).prev_sibling == prev;
      siblings += fits ? 1 : nodes_.size() + 1;
      prev = n;
    }
  };
  for (const auto& [salt, first] : roots_) count(first, kNoNode, salt);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodeId id(static_cast<std::int32_t>(i));
    if (nodes_[i].alive) count(nodes_[i].first_child, id, nodes_[i].salt);
  }
  if (siblings != alive) {
    return make_error(ErrorCode::kInternal, "{} prefix nodes stand in lists of siblings, of {}",
                      siblings, alive);
  }
  std::size_t listed = 0, indexed = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    listed += static_cast<std::size_t>(blocks[i]);
    const Node& node = nodes_[i];
    if (children[i] != node.num_children || blocks[i] != node.num_blocks) {
      return make_error(ErrorCode::kInternal,
                        "prefix node {} counts {} children, {} blocks; it has {} and {}", i,
                        node.num_children, node.num_blocks, children[i], blocks[i]);
    }
  }
  for (const auto& group : entries_) {
    indexed += static_cast<std::size_t>(std::ranges::count_if(
        group, [](const BlockEntry& entry) { return entry.node != kNoNode; }));
  }
  if (alive != num_nodes_ || listed != indexed) {
    return make_error(ErrorCode::kInternal, "{} of {} prefix nodes, {} of {} indexed blocks found",
                      alive, num_nodes_, listed, indexed);
  }
  return {};
}

}  // namespace quire
