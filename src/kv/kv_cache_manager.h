// Decides which physical KV block holds what: reference counts, the prefix index, LRU reuse.
// Integers only: it never sees a tensor. Owned by the Scheduler, used on the engine thread. See
// docs/architecture.md, "KV cache".
//
// Invariants (check_integrity): every block is untouched, recycled, cached (refs 0, still indexed,
// in LRU order) or referenced; reference counts equal the holders'; an indexed block's parent chain
// and tokens prove its content; a block is in at most one free list. block_pool.h says which free
// block is used first.
//
// Layers of one lifetime form a group with blocks of its own. All groups grow together: a
// sequence's tables have the same length in each. In a sliding-window group a table begins with
// kNoBlock where no later query reaches: those blocks were given back, and nobody may read these
// entries. Without groups (a model that keeps a state per sequence only) there is always room.
//
// Of a model with recurrent state a prefix can be taken only where a snapshot of the state is:
// snapshots are a cache beside the blocks (state_snapshots.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"
#include "kv/state_snapshots.h"

namespace quire {

struct KvCacheOptions {
  struct Group {
    std::int32_t num_blocks = 0;
    std::int32_t window = 0;  // keys a query can reach, itself included; 0: all
    bool recurrent = false;   // state slots instead of per-token blocks (reserved for later layers)
  };
  std::int32_t block_size = 32;  // tokens
  std::vector<Group> groups;
  // Positions that one sequence gets in one step, at most: all of them need their blocks at once.
  std::int32_t max_step_tokens = std::numeric_limits<std::int32_t>::max();
  // Of a model with recurrent state: how many snapshots of it there are, and the tokens from one to
  // the next, whole blocks. Without any such a model is served without prefix caching.
  std::int32_t num_snapshots = 0, snapshot_interval = 0;
  bool recurrent_state = false;
  bool enable_prefix_caching = true;
  std::int32_t prefix_match_unit = 0;     // tokens: for match_partial(); 0: whole blocks only
  PrefixHash hash = default_prefix_hash;  // tests force collisions with another
};

// What a sequence holds; a member of Sequence, changed by the manager only.
struct SequenceKv {
  struct GroupTable {
    std::vector<BlockId> blocks;  // logical -> physical
    std::int32_t num_freed = 0;   // leading blocks that left the window: kNoBlock
    std::int32_t num_held() const { return static_cast<std::int32_t>(blocks.size()) - num_freed; }
  };
  std::vector<GroupTable> groups;       // empty, or one per group
  std::int32_t num_indexed_blocks = 0;  // full blocks already entered in the prefix index
  std::uint64_t salt = 0;
  BlockId snapshot = kNoBlock;  // of a match(): the state that the next row starts from
  // Of a match() whose first growth is to come: not yet in the statistics.
  std::int32_t uncounted_query_tokens = 0, uncounted_hit_tokens = 0;

  // Length of the tables, freed blocks included.
  std::size_t num_blocks() const { return groups.empty() ? 0 : groups[0].blocks.size(); }
};

struct KvStats {
  // All groups together; free includes cached_free.
  std::int64_t num_blocks = 0, free_blocks = 0, cached_free_blocks = 0, used_blocks = 0;
  std::int64_t query_tokens = 0, hit_tokens = 0;  // prefix cache, since the start
  std::int64_t num_snapshots = 0, cached_snapshots = 0;
};

class KvCacheManager {
 public:
  // Of the first tokens of a block; done by the executor.
  struct Copy {
    std::int32_t group;
    BlockId source, target;
    std::int32_t tokens;
  };
  explicit KvCacheManager(KvCacheOptions options);

  // Takes the longest cached prefix of `tokens` (at most size - 1 tokens, whole blocks) for an
  // empty sequence: its blocks are referenced, of a window those that the next query reaches; its
  // snapshot is to be used by a row of the step that is being planned.
  // Returns the number of tokens that need no computing. Enters the statistics with the first
  // growth, so that a request that waits for room is counted once.
  std::int32_t match(SequenceKv& sequence, std::span<const TokenId> tokens);
  // For a sequence that holds num_computed tokens in whole blocks, all of a match(): begins its
  // next block with the first tokens of a cached one that begins alike, to be copied before the
  // forward pass of the step that is being planned. Returns how many tokens that saves, a multiple
  // of prefix_match_unit; 0 when there is no such block or no free one.
  std::int32_t match_partial(SequenceKv& sequence, std::span<const TokenId> tokens,
                             std::int32_t num_computed, std::vector<Copy>* copies);
  // Makes room for positions [0, num_tokens). False when there are not enough blocks: then nothing
  // has changed.
  bool try_grow(SequenceKv& sequence, std::int32_t num_tokens);
  // Blocks that it takes of each group.
  std::int32_t blocks_to_grow(const SequenceKv& sequence, std::int32_t num_tokens) const {
    return std::max(0, blocks_for(num_tokens) - static_cast<std::int32_t>(sequence.num_blocks()));
  }
  // Memory for tables of num_tokens, so that growing allocates nothing.
  void reserve(SequenceKv& sequence, std::int32_t num_tokens) const;
  // Whether a sequence with num_computed tokens can come to num_tokens, step by step, and leave
  // headroom[g] blocks free in each group g. Then its next step's try_grow succeeds.
  bool can_grow(const SequenceKv& sequence, std::int32_t num_computed, std::int32_t num_tokens,
                std::span<const std::int32_t> headroom) const;
  // Blocks of a group that it lacks for that. A window is counted at its fullest.
  std::int32_t missing_blocks(const SequenceKv& sequence, std::size_t group,
                              std::int32_t num_computed, std::int32_t num_tokens) const;
  std::int32_t num_blocks(std::size_t group) const { return pools_[group].num_blocks(); }
  std::int32_t free_blocks(std::size_t group) const { return pools_[group].num_free(); }
  // Gives back the blocks that no query at num_computed or later reaches. Called when the steps
  // that compute positions below num_computed are done.
  void free_unreachable(SequenceKv& sequence, std::int32_t num_computed);
  // Enters full blocks of positions [0, num_tokens) in the prefix index; called when they are
  // planned.
  void commit(SequenceKv& sequence, std::span<const TokenId> tokens, std::int32_t num_tokens);
  // A step's row from num_computed on must not go beyond this position, so that the state there can
  // be kept.
  std::int32_t next_snapshot(std::int32_t num_computed) const {
    return snapshots_.next_position(num_computed);
  }
  // The snapshot to write with the state at num_tokens, where the sequence's planned row ends
  // (after commit), or kNoBlock: none is kept there, or there is one already.
  BlockId take_snapshot(const SequenceKv& sequence, std::span<const TokenId> tokens,
                        std::int32_t num_tokens);
  // The step is planned: what it computes can be copied, and its snapshots started from, in the
  // next one.
  void end_plan();
  // A second holder of the same blocks (n > 1, beams). A partly filled last block is copied on
  // write: the caller gets the copy to be made, (source, target) per group, or false when there is
  // no block for it, or when a window before num_tokens was given back already. `to` is empty.
  bool fork(const SequenceKv& from, SequenceKv& to, std::int32_t num_tokens,
            std::vector<Copy>* copies);
  // Whether there is a block for it in each group g beside headroom[g] blocks that stay free.
  bool can_fork(std::int32_t num_tokens, std::span<const std::int32_t> headroom) const;
  // Gives back blocks beyond num_tokens (rejected speculation, trimmed prompts). Returns how many
  // tokens stay computed: num_tokens, or less when the block that they end in is shared: it may not
  // be written, and is given back too. None when a window before them was given back already.
  std::int32_t trim(SequenceKv& sequence, std::int32_t num_tokens);
  // Gives back everything, tail blocks first; indexed ones stay hittable until reused. Keeps the
  // salt.
  void release(SequenceKv& sequence);
  // Forgets all cached prefixes that nobody holds. False when sequences still hold blocks (those
  // stay).
  bool reset();
  KvStats stats() const;
  // Whether a sequence of num_tokens fits when it is alone.
  bool could_fit(std::int32_t num_tokens) const;
  // Checks every invariant against the tables of all live sequences. Errors describe the first
  // violation.
  Status check_integrity(std::span<const SequenceKv* const> live) const;

 private:
  std::size_t block_size() const { return static_cast<std::size_t>(options_.block_size); }
  std::int32_t blocks_for(std::int32_t num_tokens) const;  // length of the tables
  std::int32_t peak_blocks(std::size_t group, std::int32_t num_computed,
                           std::int32_t num_tokens) const;
  std::int32_t first_needed(std::size_t group, std::int32_t num_computed) const;
  bool reaches_back(const SequenceKv& sequence, std::int32_t num_computed) const;
  std::int32_t longest_match(const SequenceKv& sequence, std::span<const TokenId> tokens,
                             std::vector<NodeId>& nodes) const;
  void drop_blocks(SequenceKv& sequence, std::size_t num_kept);
  BlockId take_block(std::size_t group);
  void give_back(std::size_t group, BlockId block);
  Status check_sequence(const SequenceKv& sequence) const;
  Status check_table(const SequenceKv& sequence, std::size_t group,
                     std::span<const NodeId> nodes) const;

  KvCacheOptions options_;
  std::vector<BlockPool> pools_;  // by group
  PrefixIndex index_;
  StateSnapshots snapshots_;
  std::vector<NodeId> planned_;  // entered in the step that is being planned: not computed yet
  std::int64_t query_tokens_ = 0, hit_tokens_ = 0;
  std::vector<BlockId> scratch_;  // commit()'s, kept for its memory
};

}  // namespace quire
