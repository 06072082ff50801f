#include "executor/kv_sizing.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

constexpr double kDefaultShareOfFreeMemory = 0.4;
constexpr double kSnapshotShareOfFreeMemory = 0.1;
constexpr double kMiB = 1024.0 * 1024.0;

std::int64_t blocks_for(std::int64_t tokens, std::int64_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

// Blocks that `sequences` of `tokens` each hold at once in a group. Of a window they hold what the
// next query reaches, wherever in a block it begins, and all together one step's new tokens more.
std::int64_t blocks_of(const KvGeometry& geometry, const KvGroup& group,
                       const KvSizingOptions& options, std::int64_t sequences,
                       std::int64_t tokens) {
  const std::int64_t all = blocks_for(tokens, geometry.block_size);
  if (group.window == 0) return sequences * all;
  // The manager keeps the last full block, too, as the parent of the next.
  const std::int64_t window = std::max(group.window, geometry.block_size + 1);
  const std::int64_t step = std::min<std::int64_t>(options.max_step_tokens, tokens);
  return std::min(sequences * all, sequences * (blocks_for(window - 1, geometry.block_size) + 1) +
                                       blocks_for(step, geometry.block_size));
}

// Bytes of the same, over the groups that have a window, or those that have none.
std::int64_t bytes_of(const KvGeometry& geometry, const KvSizingOptions& options,
                      std::int64_t sequences, std::int64_t tokens, bool windows) {
  std::int64_t bytes = 0;
  for (std::size_t g = 0; g < geometry.groups.size(); ++g) {
    const KvGroup& group = geometry.groups[g];
    if ((group.window > 0) != windows) continue;
    bytes += blocks_of(geometry, group, options, sequences, tokens) * geometry.block_bytes(g);
  }
  return bytes;
}
std::int64_t bytes_of(const KvGeometry& geometry, const KvSizingOptions& options,
                      std::int64_t sequences, std::int64_t tokens) {
  return bytes_of(geometry, options, sequences, tokens, false) +
         bytes_of(geometry, options, sequences, tokens, true);
}

// The largest n in [0, limit] for which fits(n), which holds up to some n.
template <class Fits>
std::int64_t largest(std::int64_t limit, Fits&& fits) {
  std::int64_t low = 0, high = limit;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Blocks of each group for a budget that holds at least one sequence. Windows get room for as many
// sequences as half of it pays for (or more, where that many fit whole): many short sequences need
// windows more than they need full layers, which have the rest. What is left beyond max_num_seqs
// goes to all in proportion, for prefixes to stay in.
std::vector<std::int64_t> share_out(const KvGeometry& geometry, const KvSizingOptions& options,
                                    std::int64_t budget) {
  const std::int64_t tokens = options.max_model_len, most = options.max_num_seqs;
  const std::int64_t whole = largest(
      most, [&](std::int64_t n) { return bytes_of(geometry, options, n, tokens) <= budget; });
  const std::int64_t half = largest(most, [&](std::int64_t n) {
    return bytes_of(geometry, options, n, tokens, true) <= budget / 2;
  });
  const std::int64_t in_windows = std::max(whole, half);
  const auto window_bytes =
      static_cast<double>(bytes_of(geometry, options, in_windows, tokens, true));
  const auto full_bytes = static_cast<double>(bytes_of(geometry, options, 1, tokens, false));
  const auto all = static_cast<double>(budget);
  double in_full = static_cast<double>(most);
  if (whole < most && full_bytes > 0) in_full = (all - window_bytes) / full_bytes;
  const double scale = all / (window_bytes + in_full * full_bytes);
  std::vector<std::int64_t> blocks;
  for (const KvGroup& group : geometry.groups) {
    const double count =
        group.window > 0
            ? static_cast<double>(blocks_of(geometry, group, options, in_windows, tokens))
            : in_full * static_cast<double>(blocks_of(geometry, group, options, 1, tokens));
    // A hair more: the products above may fall short of a whole number that they mean.
    const double scaled =
        std::min<double>(count * scale * (1 + 1e-12), std::numeric_limits<std::int32_t>::max());
    blocks.push_back(static_cast<std::int64_t>(scaled));
  }
  return blocks;
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

// Sequences of max_model_len that these blocks hold at once.
double sequences_in(const KvGeometry& geometry, const KvSizingOptions& options,
                    const std::vector<std::int64_t>& blocks) {
  double fewest = std::numeric_limits<double>::max();
  for (std::size_t g = 0; g < blocks.size(); ++g) {
    const auto of = [&](std::int64_t n) {
      return static_cast<double>(
          blocks_of(geometry, geometry.groups[g], options, n, options.max_model_len));
    };
    const std::int64_t whole =
        largest(blocks[g], [&](std::int64_t n) { return of(n) <= static_cast<double>(blocks[g]); });
    const double step = std::max(1.0, of(whole + 1) - of(whole));
    fewest = std::min(
        fewest, static_cast<double>(whole) + (static_cast<double>(blocks[g]) - of(whole)) / step);
  }
  return fewest;
}

}  // namespace

Result<KvSizing> size_kv_cache(const KvGeometry& geometry, const KvSizingOptions& options,
                               const MemoryLimits& memory, std::int64_t model_bytes) {
  if (geometry.groups.empty()) return KvSizing{{}, 0, static_cast<double>(options.max_num_seqs)};
  const std::int64_t one = bytes_of(geometry, options, 1, options.max_model_len);
  std::vector<std::int64_t> blocks(geometry.groups.size(), 0);
  std::int64_t budget = 0;
  bool enough = true;
  if (options.num_blocks_override) {
    for (std::size_t g = 0; g < blocks.size(); ++g) {
      blocks[g] = *options.num_blocks_override;
      enough &=
          blocks[g] >= blocks_of(geometry, geometry.groups[g], options, 1, options.max_model_len);
      budget += blocks[g] * geometry.block_bytes(g);
    }
  } else {
    const std::int64_t full_use =
        bytes_of(geometry, options, options.max_num_seqs, options.max_model_len);
    budget = std::max<std::int64_t>(budget_bytes(options, memory, model_bytes, full_use), 0);
    enough = one <= budget;
    if (enough) blocks = share_out(geometry, options, budget);
  }
  if (!enough) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "not enough memory for one sequence: {} tokens need {:.1f} MiB of KV cache, {} gives "
        "{:.1f} MiB; use a smaller --max-model-len (at most {} fits), or give more with {}",
        options.max_model_len, static_cast<double>(one) / kMiB, budget_source(options),
        static_cast<double>(budget) / kMiB,
        longest_context(geometry, options, memory, model_bytes, options.max_model_len),
        options.num_blocks_override ? "--num-gpu-blocks-override" : "--kv-cache-memory-bytes");
  }
  KvSizing sizing;
  for (std::size_t g = 0; g < blocks.size(); ++g) {
    sizing.num_blocks.push_back(static_cast<std::int32_t>(blocks[g]));
    sizing.bytes += blocks[g] * geometry.block_bytes(g);
  }
  if (sizing.bytes > static_cast<std::int64_t>(memory.total_bytes)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} asks for {:.1f} MiB of KV cache; this process may use {:.1f} MiB of "
                      "memory in all",
                      budget_source(options), static_cast<double>(sizing.bytes) / kMiB,
                      static_cast<double>(memory.total_bytes) / kMiB);
  }
  sizing.full_sequences = sequences_in(geometry, options, blocks);
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

std::int64_t longest_context(const KvGeometry& geometry, const KvSizingOptions& options,
                             const MemoryLimits& memory, std::int64_t model_bytes,
                             std::int64_t limit) {
  if (geometry.groups.empty()) return limit;
  const auto fits = [&](std::int64_t tokens) {
    if (!options.num_blocks_override) {
      const std::int64_t budget =
          budget_bytes(options, memory, model_bytes, std::numeric_limits<std::int64_t>::max());
      return bytes_of(geometry, options, 1, tokens) <= std::max<std::int64_t>(budget, 0);
    }
    return std::all_of(geometry.groups.begin(), geometry.groups.end(), [&](const KvGroup& group) {
      return blocks_of(geometry, group, options, 1, tokens) <= *options.num_blocks_override;
    });
  };
  return largest(limit, fits);
}

}  // namespace quire
