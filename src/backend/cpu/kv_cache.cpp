// KV memory of the CPU backend: making it, storing a step's K and V, copying blocks.
#include <algorithm>
#include <cstring>

#include "backend/cpu/attention_call.h"
#include "backend/cpu/cpu_backend.h"
#include "base/trace.h"

namespace quire {
namespace {

// KV memory touched beyond the blocks in use, of all groups: some steps' worth, and no more than an
// eighth of each.
constexpr std::size_t kMostTouchedAhead = 64u << 20;
constexpr std::size_t kTouchedAheadShare = 8;

}  // namespace

std::unique_ptr<KvCache> CpuBackend::make_kv_cache(const KvGeometry& geometry,
                                                   std::span<const std::int32_t> num_blocks) {
  QUIRE_CHECK(num_blocks.size() == geometry.groups.size(), "{} block counts for {} KV groups",
              num_blocks.size(), geometry.groups.size());
  QUIRE_CHECK(
      geometry.block_size % 8 == 0 && geometry.block_size >= 8 && geometry.block_size <= 256,
      "a block of {} tokens; it must be a multiple of 8 in 8..256", geometry.block_size);
  auto cache = std::make_unique<CpuKvCache>();
  cache->geometry = geometry;
  cache->num_blocks.assign(num_blocks.begin(), num_blocks.end());
  for (std::size_t g = 0; g < geometry.groups.size(); ++g) {
    cache->groups.emplace_back(static_cast<std::size_t>(geometry.block_bytes(g) * num_blocks[g]));
    writer_.resize(std::max(writer_.size(), static_cast<std::size_t>(num_blocks[g])));
  }
  for (const Buffer& group : cache->groups) {
    const std::size_t ahead =
        std::min(kMostTouchedAhead / cache->groups.size(), group.size() / kTouchedAheadShare);
    cache->touch_ahead.push_back(std::make_unique<TouchAhead>(group, ahead));
    cache->tables.emplace_back();
  }
  reserve_attention(*cache);
  return cache;
}

// Has memory touched beyond the blocks that the step writes. The first block is warmed up with
// before anybody asks for anything, and costs no more memory.
void CpuBackend::touch_beyond(const AttentionBatch& batch, const AttentionParams& params,
                              CpuKvCache& cache) {
  if (params.layer != 0) return;
  std::int32_t last_block = 0;
  for (std::size_t s = 0; s + 1 < batch.row_begin.size(); ++s) {
    const std::int32_t rows = batch.row_begin[s + 1] - batch.row_begin[s];
    const std::int32_t first = batch.start_pos[s] / cache.geometry.block_size;
    const std::int32_t last = (batch.start_pos[s] + rows - 1) / cache.geometry.block_size;
    for (std::int32_t i = first; i <= last; ++i) {
      const auto entry = static_cast<std::size_t>(batch.table_begin[s] + i);
      last_block = std::max(last_block, batch.block_table[entry]);
    }
  }
  const auto group = static_cast<std::size_t>(params.group);
  if (last_block > 0)
    cache.touch_ahead[group]->used(
        static_cast<std::size_t>((last_block + 1) * cache.geometry.block_bytes(group)));
}

// Stores rows [begin, end), in runs that lie in one block.
void CpuBackend::store_rows(const KvSource& source, const AttentionBatch& batch,
                            const AttentionParams& params, CpuKvCache& cache, std::int64_t begin,
                            std::int64_t end) {
  const auto group = static_cast<std::size_t>(params.group);
  const std::int64_t block_bytes = cache.geometry.block_bytes(group);
  const std::int32_t block_size = cache.geometry.block_size;
  KvStore store;
  store.k_stride = source.k_stride;
  store.v_stride = source.v_stride;
  store.block_size = block_size;
  store.head_dim = params.head_dim;
  store.v_head_dim = params.v_in_k ? 0 : params.v_head_dim;
  store.dtype = cache.geometry.dtype;
  for (std::size_t s = 0; s + 1 < batch.row_begin.size(); ++s) {
    const std::int64_t last = std::min<std::int64_t>(end, batch.row_begin[s + 1]);
    for (std::int64_t r = std::max<std::int64_t>(begin, batch.row_begin[s]); r < last;) {
      const std::int64_t pos = batch.start_pos[s] + (r - batch.row_begin[s]);
      const std::int64_t run = std::min<std::int64_t>(last - r, block_size - pos % block_size);
      const auto entry = static_cast<std::size_t>(batch.table_begin[s] + pos / block_size);
      std::byte* const block = cache.groups[group].data() + batch.block_table[entry] * block_bytes;
      store.rows = static_cast<std::int32_t>(run);
      store.offset = static_cast<std::int32_t>(pos % block_size);
      for (std::int64_t h = 0; h < params.kv_heads; ++h) {
        store.k = source.k + r * source.k_stride + h * params.head_dim;
        store.v = source.v + r * source.v_stride + h * store.v_head_dim;
        store.block = block + cache.part_offset(group, params.layer, h);
        kernels_.vec.store_kv(store);
      }
      r += run;
    }
  }
}

void CpuBackend::store_kv(const float* k, std::int64_t k_stride, const float* v,
                          std::int64_t v_stride, const AttentionBatch& batch,
                          const AttentionParams& params, KvCache& kv_cache) {
  const TraceSpan span(TraceKind::kStoreKv, batch.row_begin.back());
  auto& cache = static_cast<CpuKvCache&>(kv_cache);
  touch_beyond(batch, params, cache);
  const std::int64_t elements =
      std::int64_t{params.kv_heads} * (params.head_dim + params.v_head_dim);
  for_rows(batch.row_begin.back(), elements, [&](std::int64_t begin, std::int64_t end) {
    store_rows({k, v, k_stride, v_stride}, batch, params, cache, begin, end);
  });
}

void CpuBackend::copy_blocks(std::span<const BlockCopy> copies, KvCache& kv_cache) {
  const TraceSpan span(TraceKind::kCopyBlocks, static_cast<std::int64_t>(copies.size()));
  auto& cache = static_cast<CpuKvCache&>(kv_cache);
  const std::int64_t block_size = cache.geometry.block_size;
  const std::int64_t element = dtype_info(cache.geometry.dtype).block_bytes;
  for (const BlockCopy& copy : copies) {  // in order: a target may be a later source
    const auto g = static_cast<std::size_t>(copy.group);
    const KvGroup& group = cache.geometry.groups[g];
    const std::int64_t block_bytes = cache.geometry.block_bytes(g);
    const std::byte* const source = cache.groups[g].data() + copy.source * block_bytes;
    std::byte* const target = cache.groups[g].data() + copy.target * block_bytes;
    const auto k_row = static_cast<std::size_t>(copy.tokens * element);
    const auto v_bytes = static_cast<std::size_t>(
        copy.tokens * (group.elements_per_token() - group.head_dim) * element);
    for_rows(std::int64_t{group.num_layers} * group.kv_heads,
             cache.geometry.head_bytes(g) / element, [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t part = begin; part < end; ++part) {
                 const std::int64_t at = part * cache.geometry.head_bytes(g);
                 for (std::int64_t d = 0; d < group.head_dim; ++d) {
                   const std::int64_t row = at + d * block_size * element;
                   std::memcpy(target + row, source + row, k_row);
                 }
                 const std::int64_t v = at + group.head_dim * block_size * element;
                 std::memcpy(target + v, source + v, v_bytes);
                 if (cache.geometry.dtype != DType::kI8) continue;
                 const std::int64_t scales = at + group.elements_per_token() * block_size;
                 const auto scale_bytes = static_cast<std::size_t>(copy.tokens) * sizeof(float);
                 for (const std::int64_t s : {scales, scales + block_size * 4})
                   std::memcpy(target + s, source + s, scale_bytes);
               }
             });
  }
}

}  // namespace quire
