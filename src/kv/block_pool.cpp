#include "kv/block_pool.h"

#include "base/check.h"

namespace quire {

BlockPool::BlockPool(std::int32_t num_blocks) : blocks_(static_cast<std::size_t>(num_blocks)) {}

BlockId BlockPool::take() {
  BlockId block = kNoBlock;
  if (recycled_.size > 0) {
    block = BlockId(recycled_.tail);  // the one used last: likeliest still in a processor cache
    unlink(recycled_, block);
  } else if (num_untouched() > 0) {
    block = BlockId(first_untouched_++);
  } else {
    QUIRE_CHECK(cached_.size > 0, "no free KV block; the caller asks num_free() first");
    block = BlockId(cached_.head);
    unlink(cached_, block);
  }
  at(block).state = State::kHeld;
  at(block).refs = 1;
  return block;
}

void BlockPool::add_ref(BlockId block) {
  Block& b = at(block);
  QUIRE_CHECK(b.state == State::kHeld || b.state == State::kCached, "block {} has no content",
              block.value);
  if (b.state == State::kCached) {
    unlink(cached_, block);
    b.state = State::kHeld;
  }
  ++b.refs;
}

void BlockPool::drop_ref(BlockId block, bool keep_cached) {
  Block& b = at(block);
  QUIRE_CHECK(b.state == State::kHeld && b.refs > 0, "block {} is freed twice", block.value);
  if (--b.refs > 0) return;
  b.state = keep_cached ? State::kCached : State::kRecycled;
  push_back(keep_cached ? cached_ : recycled_, block);
}

void BlockPool::forget(BlockId block) {
  QUIRE_CHECK(at(block).state == State::kCached);
  unlink(cached_, block);
  at(block).state = State::kRecycled;
  push_back(recycled_, block);
}

void BlockPool::push_back(List& list, BlockId block) {
  Block& b = at(block);
  b.prev = list.tail;
  b.next = -1;
  if (list.tail >= 0) {
    at(BlockId(list.tail)).next = block.value;
  } else {
    list.head = block.value;
  }
  list.tail = block.value;
  ++list.size;
}

void BlockPool::unlink(List& list, BlockId block) {
  Block& b = at(block);
  (b.prev >= 0 ? at(BlockId(b.prev)).next : list.head) = b.next;
  (b.next >= 0 ? at(BlockId(b.next)).prev : list.tail) = b.prev;
  b.prev = b.next = -1;
  --list.size;
}

Status BlockPool::check_list(const List& list, State state) const {
  std::int32_t count = 0, prev = -1;
  for (std::int32_t i = list.head; i >= 0; i = at(BlockId(i)).next) {
    const Block& b = at(BlockId(i));
    if (b.state != state || b.refs != 0 || b.prev != prev || ++count > list.size) {
      return make_error(ErrorCode::kInternal, "block {} (refs {}) is wrong in its free list", i,
                        b.refs);
    }
    prev = i;
  }
  if (count != list.size || list.tail != prev) {
    return make_error(ErrorCode::kInternal, "a free list holds {} blocks, its size says {}", count,
                      list.size);
  }
  return {};
}

Status BlockPool::check_integrity() const {
  QUIRE_TRY(check_list(recycled_, State::kRecycled));
  QUIRE_TRY(check_list(cached_, State::kCached));
  std::int32_t recycled = 0, cached = 0;
  for (std::int32_t i = 0; i < num_blocks(); ++i) {
    const Block& b = at(BlockId(i));
    recycled += b.state == State::kRecycled;
    cached += b.state == State::kCached;
    if ((b.state == State::kUntouched) != (i >= first_untouched_)) {
      return make_error(ErrorCode::kInternal, "block {} is on the wrong side of the untouched ones",
                        i);
    }
    if ((b.state == State::kHeld) != (b.refs > 0)) {
      return make_error(ErrorCode::kInternal, "block {} has {} references in state {}", i, b.refs,
                        static_cast<int>(b.state));
    }
  }
  if (recycled != recycled_.size || cached != cached_.size) {
    return make_error(ErrorCode::kInternal,
                      "{} recycled and {} cached blocks, but the free lists hold {} and {}",
                      recycled, cached, recycled_.size, cached_.size);
  }
  return {};
}

}  // namespace quire
