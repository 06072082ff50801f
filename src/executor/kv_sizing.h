// How much memory the KV cache gets: from flags, or from what the machine has; and how the groups
// share it, by what a sequence holds in each. Pure arithmetic, no allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/cpu_topology.h"
#include "base/result.h"
#include "tensor/kv_geometry.h"

namespace quire {

struct KvSizingOptions {
  std::optional<double> memory_utilization;    // --gpu-memory-utilization: of what the process may
                                               // use, weights included
  std::optional<std::int64_t> kv_cache_bytes;  // --kv-cache-memory-bytes
  std::optional<std::int64_t> snapshot_bytes;  // --state-cache-memory-bytes
  std::optional<std::int32_t> num_blocks_override;  // --num-gpu-blocks-override, for every group
  std::int32_t max_num_seqs = 128;
  std::int64_t max_model_len = 2048;
  std::int64_t max_step_tokens = 2048;  // --max-num-batched-tokens: a window holds a step more
};

struct KvSizing {
  std::vector<std::int32_t> num_blocks;  // per group
  std::int64_t bytes = 0;                // when all of it is used
  double full_sequences = 0;             // sequences of max_model_len that fit
};

// A model without KV groups needs none. An error when not even one sequence of max_model_len fits,
// saying which flag helps.
Result<KvSizing> size_kv_cache(const KvGeometry& geometry, const KvSizingOptions& options,
                               const MemoryLimits& memory, std::int64_t model_bytes);
// How many snapshots of recurrent state are kept, one of state_bytes every `interval` tokens: what
// the option's bytes hold, or the smaller of what max_num_seqs sequences of max_model_len need and
// 10 % of the free memory.
std::int32_t num_state_snapshots(std::int64_t state_bytes, std::int32_t interval,
                                 const KvSizingOptions& options, const MemoryLimits& memory);
// The longest context that fits the memory of `options` (for --max-model-len auto), at most
// `limit`.
std::int64_t longest_context(const KvGeometry& geometry, const KvSizingOptions& options,
                             const MemoryLimits& memory, std::int64_t model_bytes,
                             std::int64_t limit);

}  // namespace quire
