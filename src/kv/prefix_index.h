// Which blocks hold the K and V of which prefix. A tree: a node stands for one full block of tokens
// after its parent node, under a salt, and lists the physical blocks (of every group) that hold it;
// several may, since sequences that compute the same prefix side by side are not merged. Snapshots
// of recurrent state are entered as blocks of a group of their own. Owned by KvCacheManager, engine
// thread.
//
// Lookup goes by a chained 64-bit hash; parent, salt and all tokens are then compared, so a
// collision costs time and never shows one user the content of another. A node lives while it has
// blocks or children: therefore a node's number is not reused as long as anything below it could
// still be found through it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

using NodeId = StrongId<struct PrefixNodeTag, std::int32_t>;
inline constexpr NodeId kNoNode{-1};

// Chains the hash of a block's tokens to its parent's hash (the salt, for a first block).
using PrefixHash = std::uint64_t (*)(std::uint64_t parent_hash, std::span<const TokenId> tokens);
std::uint64_t default_prefix_hash(std::uint64_t parent_hash, std::span<const TokenId> tokens);

class PrefixIndex {
 public:
  // num_blocks: of each group.
  PrefixIndex(std::int32_t block_size, std::span<const std::int32_t> num_blocks, PrefixHash hash);

  // The node of `tokens` (one block of them) after `parent`, or kNoNode. parent kNoNode: the start
  // of a sequence.
  NodeId find(NodeId parent, std::uint64_t salt, std::span<const TokenId> tokens) const;
  // A physical block of the node, or kNoBlock.
  BlockId block(NodeId node, std::size_t group) const;
  // The node whose content a physical block holds, or kNoNode when it is not indexed.
  NodeId node_of(std::size_t group, BlockId block) const { return at(group, block).node; }
  NodeId parent_of(NodeId node) const { return at(node).parent; }
  std::uint64_t salt_of(NodeId node) const { return at(node).salt; }

  // Of the nodes after `parent` that `accepts` takes, one whose tokens begin like `tokens` (less
  // than a block of them counts too) and how many they share; kNoNode when that is none. Looks at
  // the newest kMaxSiblings nodes only.
  struct Partial {
    NodeId node = kNoNode;
    std::int32_t num_tokens = 0;
  };
  static constexpr int kMaxSiblings = 64;
  Partial find_partial(NodeId parent, std::uint64_t salt, std::span<const TokenId> tokens,
                       const std::function<bool(NodeId)>& accepts) const;
  // The node of whole blocks of tokens from the start of a sequence, or kNoNode.
  NodeId find_path(std::uint64_t salt, std::span<const TokenId> tokens) const;
  // That node, made with all before it where they are missing. The caller attaches a block at once.
  NodeId make_path(std::uint64_t salt, std::span<const TokenId> tokens);

  // Says that a block holds the node's content. It must not be indexed yet.
  void attach(NodeId node, std::size_t group, BlockId block);
  // Says that blocks[g] of each group g hold `tokens` after `parent`. They must not be indexed yet.
  // Returns their node.
  NodeId enter(NodeId parent, std::uint64_t salt, std::span<const TokenId> tokens,
               std::span<const BlockId> blocks);
  // The block's content is about to change.
  void remove(std::size_t group, BlockId block);

  std::size_t num_nodes() const { return num_nodes_; }
  Status check_integrity() const;

 private:
  struct Node {
    NodeId parent;
    std::uint64_t salt = 0, hash = 0;
    std::int32_t num_children = 0, num_blocks = 0;
    NodeId next_in_bucket = kNoNode;
    bool alive = false;
    NodeId first_child = kNoNode, next_sibling = kNoNode, prev_sibling = kNoNode;  // newest first
  };
  struct BlockEntry {  // physical block: its node, and its place in the node's list
    NodeId node = kNoNode;
    BlockId prev = kNoBlock, next = kNoBlock;
  };

  Node& at(NodeId node) { return nodes_[static_cast<std::size_t>(node.value)]; }
  const Node& at(NodeId node) const { return nodes_[static_cast<std::size_t>(node.value)]; }
  BlockEntry& at(std::size_t group, BlockId block) {
    return entries_[group][static_cast<std::size_t>(block.value)];
  }
  const BlockEntry& at(std::size_t group, BlockId block) const {
    return entries_[group][static_cast<std::size_t>(block.value)];
  }
  std::size_t first_at(NodeId node, std::size_t group) const {
    return static_cast<std::size_t>(node.value) * entries_.size() + group;
  }
  std::span<const TokenId> tokens_of(NodeId node) const;
  std::uint64_t hash_of(NodeId parent, std::uint64_t salt, std::span<const TokenId> tokens) const;
  NodeId create(NodeId parent, std::uint64_t salt, std::span<const TokenId> tokens);
  void erase_if_unused(NodeId node);
  NodeId& bucket_of(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  void unlink_hash(NodeId node);
  void link_sibling(NodeId node);
  void unlink_sibling(NodeId node);

  std::size_t block_size_;
  PrefixHash hash_;
  std::vector<std::vector<BlockEntry>> entries_;  // [group][block]
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;        // [node, block_size]
  std::vector<BlockId> first_blocks_;  // [node, group]
  std::vector<NodeId> unused_nodes_;
  // First of a chain through next_in_bucket, by the low bits of the hash. Never grows: there are
  // about as many nodes as blocks.
  std::vector<NodeId> buckets_;
  std::unordered_map<std::uint64_t, NodeId> roots_;  // by salt: first of the nodes without parent
  std::size_t num_nodes_ = 0;
};

}  // namespace quire
