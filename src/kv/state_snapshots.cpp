#include "kv/state_snapshots.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace quire {

StateSnapshots::StateSnapshots(std::int32_t count, std::int32_t interval, std::size_t group)
    : interval_(interval), group_(group), pool_(count) {
  QUIRE_CHECK(count == 0 || interval > 0, "{} snapshots, one every {} tokens", count, interval);
}

std::int32_t StateSnapshots::next_position(std::int32_t num_tokens) const {
  constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
  if (count() == 0) return kNever;
  const std::int64_t next = (std::int64_t{num_tokens} / interval_ + 1) * interval_;
  return static_cast<std::int32_t>(std::min<std::int64_t>(next, kNever));
}

BlockId StateSnapshots::find(const PrefixIndex& index, NodeId node) const {
  if (count() == 0) return kNoBlock;
  const BlockId snapshot = index.block(node, group_);
  return snapshot != kNoBlock && pool_.is_cached(snapshot) ? snapshot : kNoBlock;
}

BlockId StateSnapshots::use(const PrefixIndex& index, NodeId node) {
  const BlockId snapshot = find(index, node);
  if (snapshot != kNoBlock) touch(snapshot);
  return snapshot;
}

void StateSnapshots::touch(BlockId snapshot) {
  pool_.add_ref(snapshot);
  pool_.drop_ref(snapshot, true);
}

BlockId StateSnapshots::take(PrefixIndex& index) {
  if (pool_.num_free() == 0) return kNoBlock;
  const BlockId snapshot = pool_.take();
  if (index.node_of(group_, snapshot) != kNoNode) index.remove(group_, snapshot);  // evicted
  taken_.push_back(snapshot);
  return snapshot;
}

void StateSnapshots::publish(const PrefixIndex& index) {
  for (const BlockId snapshot : taken_) {
    pool_.drop_ref(snapshot, true);
    // Those before it on the way outlive it: more prefixes go through them.
    NodeId node = index.node_of(group_, snapshot);
    for (node = index.parent_of(node); node != kNoNode; node = index.parent_of(node)) {
      use(index, node);
    }
  }
  taken_.clear();
}

void StateSnapshots::reset(PrefixIndex& index) {
  for (BlockId s = pool_.oldest_cached(); s != kNoBlock; s = pool_.oldest_cached()) {
    index.remove(group_, s);
    pool_.forget(s);
  }
}

Status StateSnapshots::check_integrity(const PrefixIndex& index) const {
  if (count() == 0) return {};
  QUIRE_TRY(pool_.check_integrity());
  for (std::int32_t i = 0; i < count(); ++i) {
    const BlockId snapshot(i);
    const bool indexed = index.node_of(group_, snapshot) != kNoNode;
    if (pool_.refs(snapshot) != 0 || indexed != pool_.is_cached(snapshot)) {
      return make_error(ErrorCode::kInternal,
                        "state snapshot {}: {} holders, indexed {}, cached {}", i,
                        pool_.refs(snapshot), indexed, pool_.is_cached(snapshot));
    }
  }
  return {};
}

}  // namespace quire
