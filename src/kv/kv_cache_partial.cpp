// Reuse of a part of a cached block, by copy.
#include <algorithm>

#include "base/check.h"
#include "kv/kv_cache_manager.h"

namespace quire {

// Nothing new is computed in a step before its copies are done, so that blocks of this step are not
// copied from. A block that is evicted now is written after that.
std::int32_t KvCacheManager::match_partial(SequenceKv& sequence, std::span<const TokenId> tokens,
                                           std::int32_t num_computed, std::vector<Copy>* copies) {
  const std::int32_t unit = options_.prefix_match_unit;
  if (!options_.enable_prefix_caching || unit == 0 || pools_.empty() || snapshots_.count() > 0) {
    return 0;
  }
  QUIRE_CHECK(
      num_computed == static_cast<std::int32_t>(sequence.num_blocks()) * options_.block_size,
      "{} tokens in {} blocks", num_computed, sequence.num_blocks());
  if (static_cast<std::size_t>(num_computed) + 1 >= tokens.size()) return 0;
  // The block that is copied from may be a free one itself.
  const auto room = [](const BlockPool& pool) { return pool.num_free() > 1; };
  if (!std::ranges::all_of(pools_, room)) return 0;
  const NodeId parent =
      num_computed == 0 ? kNoNode : index_.node_of(0, sequence.groups[0].blocks.back());
  const auto is_computed = [&](NodeId node) {
    for (std::size_t g = 0; g < pools_.size(); ++g) {
      if (index_.block(node, g) == kNoBlock) return false;
    }
    return std::ranges::find(planned_, node) == planned_.end();
  };
  // One token is always computed.
  const auto rest = tokens.subspan(static_cast<std::size_t>(num_computed));
  const auto wanted = rest.first(std::min(rest.size() - 1, block_size()));
  const PrefixIndex::Partial found =
      index_.find_partial(parent, sequence.salt, wanted, is_computed);
  const std::int32_t saved = found.num_tokens / unit * unit;
  if (saved == 0) return 0;
  sequence.groups.resize(pools_.size());
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const BlockId source = index_.block(found.node, g);
    pools_[g].add_ref(source);  // not to be taken itself
    const BlockId target = take_block(g);
    give_back(g, source);
    sequence.groups[g].blocks.push_back(target);
    copies->push_back({static_cast<std::int32_t>(g), source, target, saved});
  }
  sequence.uncounted_hit_tokens += saved;
  return saved;
}

void KvCacheManager::end_plan() {
  snapshots_.publish(index_);
  planned_.clear();
}

}  // namespace quire
