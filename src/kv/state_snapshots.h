// Which snapshot of recurrent state holds which prefix. A snapshot is the state of all recurrent
// layers at one position, a multiple of the interval: a sequence with these tokens can start there.
// Integers only: the executor copies the states. Owned by KvCacheManager, engine thread.
//
// In the prefix index a snapshot is a block of a group of its own. It is free to be taken for
// another prefix at any time, the one used least recently first, the deepest of one prefix before
// the others; only those of the step that is being planned are held, since they are written after
// its forward pass: they can be hit from the next step on.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace quire {

class StateSnapshots {
 public:
  // interval: in tokens, whole blocks. group: of the index. count 0: there are none.
  StateSnapshots(std::int32_t count, std::int32_t interval, std::size_t group);

  std::int32_t count() const { return pool_.num_blocks(); }
  std::int32_t num_cached() const { return pool_.num_cached(); }
  bool is_position(std::int32_t num_tokens) const {
    return count() > 0 && num_tokens > 0 && num_tokens % interval_ == 0;
  }
  // The first such position after num_tokens; a very large one when there are no snapshots.
  std::int32_t next_position(std::int32_t num_tokens) const;

  // The node's snapshot that can be started from, or kNoBlock.
  BlockId find(const PrefixIndex& index, NodeId node) const;
  // The same, which has then been used last.
  BlockId use(const PrefixIndex& index, NodeId node);
  // Whether the node has one, or gets one in this step.
  bool has(const PrefixIndex& index, NodeId node) const {
    return index.block(node, group_) != kNoBlock;
  }
  // One to be written in this step, out of the index, or kNoBlock when all are being written.
  BlockId take(PrefixIndex& index);
  // What was taken has been planned.
  void publish(const PrefixIndex& index);
  // Forgets all that are not being written.
  void reset(PrefixIndex& index);
  // When no step is being planned.
  Status check_integrity(const PrefixIndex& index) const;

 private:
  void touch(BlockId snapshot);

  std::int32_t interval_;
  std::size_t group_;
  BlockPool pool_;
  std::vector<BlockId> taken_;  // in the step that is being planned
};

}  // namespace quire
