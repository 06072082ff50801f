// The physical blocks of one KV group: how many holders each has, and which free one is used next.
// Knows nothing of their content. Owned by KvCacheManager, engine thread.
//
// A block is untouched (its memory was never written), held (refs > 0), recycled (free, content
// worthless) or cached (free, content still in the prefix index, in LRU order). take() prefers
// recycled blocks, so that physical memory is committed only as it is used; then untouched ones, so
// that the prefix cache keeps its hits as long as there is memory; then it evicts the cached block
// that was given back first.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

class BlockPool {
 public:
  explicit BlockPool(std::int32_t num_blocks);

  std::int32_t num_blocks() const { return static_cast<std::int32_t>(blocks_.size()); }
  // All that take() can hand out, cached ones included.
  std::int32_t num_free() const { return num_untouched() + recycled_.size + cached_.size; }
  std::int32_t num_cached() const { return cached_.size; }
  std::int32_t refs(BlockId block) const { return at(block).refs; }
  bool is_cached(BlockId block) const { return at(block).state == State::kCached; }

  // A free block, now held once. There must be one. When it was cached, the caller takes it out of
  // the index.
  BlockId take();
  // One holder more, of a held or a cached block.
  void add_ref(BlockId block);
  // One holder less; the last one frees the block, as cached when its content stays in the index.
  void drop_ref(BlockId block, bool keep_cached);
  // The oldest cached block, or kNoBlock.
  BlockId oldest_cached() const { return BlockId(cached_.head); }
  // Turns a cached block into a recycled one; the caller takes it out of the index.
  void forget(BlockId block);

  Status check_integrity() const;

 private:
  enum class State : std::uint8_t { kUntouched, kHeld, kRecycled, kCached };
  struct Block {
    std::int32_t refs = 0;
    std::int32_t prev = -1, next = -1;  // in the free list of its state
    State state = State::kUntouched;
  };
  struct List {
    std::int32_t head = -1, tail = -1, size = 0;
  };

  std::int32_t num_untouched() const { return num_blocks() - first_untouched_; }
  Block& at(BlockId block) { return blocks_[static_cast<std::size_t>(block.value)]; }
  const Block& at(BlockId block) const { return blocks_[static_cast<std::size_t>(block.value)]; }
  void push_back(List& list, BlockId block);
  void unlink(List& list, BlockId block);
  Status check_list(const List& list, State state) const;

  std::vector<Block> blocks_;
  std::int32_t first_untouched_ = 0;  // blocks from here on were never used
  List recycled_, cached_;            // cached_: head was given back first
};

}  // namespace quire
