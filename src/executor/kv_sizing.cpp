#include "executor/kv_sizing.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

constexpr double kDefaultShareOfFreeMemory = 0.4;
constexpr double kSnapshotShareOfFreeMemory = 0.1;
constexpr double kMiB = 1024.0 * 1024.0;

// Bytes of one block in every group: groups have the same number of blocks.
std::int64_t bytes_per_block(const KvGeometry& geometry) {
  std::int64_t bytes = 0;
  for (std::size_t g = 0; g < geometry.groups.size(); ++g) bytes += geometry.block_bytes(g);
  return bytes;
}

std::int64_t blocks_of_sequence(const KvGeometry& geometry, std::int64_t tokens) {
  return (tokens + geometry.block_size - 1) / geometry.block_size;
}

std::int64_t budget_bytes(const KvSizingOptions& options, const MemoryLimits& memory,
                          std::int64_t model_bytes, std::int64_t full_use_bytes) {
  if (options.kv_cache_bytes) return *options.kv_cache_bytes;
  if (options.memory_utilization) {
    return static_cast<std::int64_t>(static_cast<double>(memory.total_bytes) *
                                     *options.memory_utilization) -
           model_bytes;
  }
  const auto share =
      static_cast<std::int64_t>(static_cast<double>(memory.free_bytes) * kDefaultShareOfFreeMemory);
  return std::min(full_use_bytes, share);
}

const char* budget_source(const KvSizingOptions& options) {
  if (options.num_blocks_override) return "--num-gpu-blocks-override";
  if (options.kv_cache_bytes) return "--kv-cache-memory-bytes";
  if (options.memory_utilization) return "--gpu-memory-utilization";
  return "40 % of the free memory";
}

}  // namespace

Result<KvSizing> size_kv_cache(const KvGeometry& geometry, const KvSizingOptions& options,
                               const MemoryLimits& memory, std::int64_t model_bytes) {
  if (geometry.groups.empty()) return KvSizing{{}, 0, static_cast<double>(options.max_num_seqs)};
  const std::int64_t block_bytes = bytes_per_block(geometry);
  const std::int64_t per_sequence = blocks_of_sequence(geometry, options.max_model_len);
  std::int64_t blocks = 0;
  if (options.num_blocks_override) {
    blocks = *options.num_blocks_override;
  } else {
    const std::int64_t full_use = per_sequence * options.max_num_seqs * block_bytes;
    blocks = std::max<std::int64_t>(budget_bytes(options, memory, model_bytes, full_use), 0) /
             block_bytes;
  }
  blocks = std::min<std::int64_t>(blocks, std::numeric_limits<std::int32_t>::max());
  if (blocks < per_sequence) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "not enough memory for one sequence: {} tokens need {:.1f} MiB of KV cache, {} gives "
        "{:.1f} MiB; "
        "use a smaller --max-model-len (at most {} fits), or give more with {}",
        options.max_model_len, static_cast<double>(per_sequence * block_bytes) / kMiB,
        budget_source(options), static_cast<double>(blocks * block_bytes) / kMiB,
        blocks * geometry.block_size,
        options.num_blocks_override ? "--num-gpu-blocks-override" : "--kv-cache-memory-bytes");
  }
  if (blocks > static_cast<std::int64_t>(memory.total_bytes) / block_bytes) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "{} asks for {} KV blocks of {} bytes; this process may use {:.1f} MiB of memory in all",
        budget_source(options), blocks, block_bytes,
        static_cast<double>(memory.total_bytes) / kMiB);
  }
  KvSizing sizing;
  sizing.num_blocks.assign(geometry.groups.size(), static_cast<std::int32_t>(blocks));
  sizing.bytes = blocks * block_bytes;
  sizing.full_sequences =
      static_cast<double>(blocks) / static_cast<double>(std::max<std::int64_t>(per_sequence, 1));
  return sizing;
}

std::int32_t num_state_snapshots(std::int64_t state_bytes, std::int32_t interval,
                                 const KvSizingOptions& options, const MemoryLimits& memory) {
  if (state_bytes == 0) return 0;
  const std::int64_t per_sequence = (options.max_model_len + interval - 1) / interval;
  std::int64_t bytes = static_cast<std::int64_t>(static_cast<double>(memory.free_bytes) *
                                                 kSnapshotShareOfFreeMemory);
  bytes = std::min(bytes, per_sequence * options.max_num_seqs * state_bytes);
  bytes = options.snapshot_bytes.value_or(bytes);
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(bytes / state_bytes, std::numeric_limits<std::int32_t>::max()));
}

std::int64_t longest_context(const KvGeometry& geometry, KvSizingOptions options,
                             const MemoryLimits& memory, std::int64_t model_bytes,
                             std::int64_t limit) {
  if (geometry.groups.empty()) return limit;
  if (options.num_blocks_override)
    return std::min<std::int64_t>(limit,
                                  std::int64_t{*options.num_blocks_override} * geometry.block_size);
  const std::int64_t block_bytes = bytes_per_block(geometry);
  const std::int64_t budget =
      budget_bytes(options, memory, model_bytes, std::numeric_limits<std::int64_t>::max());
  return std::clamp<std::int64_t>(
      std::max<std::int64_t>(budget, 0) / block_bytes * geometry.block_size, 0, limit);
}

}  // namespace quire
