// RoPE, storing and attention in one. In a step of decoding rows the work item that owns (row, KV
// head) turns its heads, stores its K and V and attends, so that the lines of the block that it
// writes are in the cache when it reads them, and no thread waits for another in between. The bits
// are those of the separate operations.
#include <algorithm>

#include "backend/cpu/attention_call.h"
#include "base/trace.h"

namespace quire {

void CpuBackend::rope_and_store(float* qkv, std::int64_t stride, const NewRows& rows,
                                const AttentionBatch& batch, const AttentionParams& params) {
  const TraceSpan span(TraceKind::kRopeAndStore, batch.row_begin.back());
  const std::int64_t half = rows.rotary_dim / 2, head_dim = params.head_dim;
  const std::int64_t rotated_heads = params.q_heads + params.kv_heads;
  for_rows(batch.row_begin.back(), stride, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; half > 0 && r < end; ++r) {
      for (std::int64_t h = 0; h < rotated_heads; ++h) {
        kernels_.vec.rope(qkv + r * stride + h * head_dim, rows.cos + r * half, rows.sin + r * half,
                          rows.rotary_dim, rows.interleaved);
      }
    }
    store_rows({qkv + params.q_heads * head_dim, qkv + rotated_heads * head_dim, stride, stride},
               batch, params, rows.cache, begin, end);
  });
}

// Whether each sequence has one row and none reads a block that another one writes in this step:
// then the order in which rows are stored and attended to cannot show. So it is in all steps that
// only decode: a running sequence shares full blocks alone, which it has ceased to write (forks and
// partial hits copy the block that both go on with). But a prompt's last token looks like a
// decoding row and may sit on a block that another row fills in this very step, blocks being
// indexed when they are planned. So the tables are looked at, once a step: a few nanoseconds a
// block.
bool CpuBackend::rows_apart(const AttentionBatch& batch, const KvCache& cache) {
  const std::int32_t block_size = cache.geometry.block_size;
  const std::size_t sequences = batch.start_pos.size();
  if (kKvSpan % block_size != 0) return false;  // a block in two spans: two items' work
  const auto written = [&](std::size_t s) -> std::int32_t& {
    const std::int32_t entry = batch.table_begin[s] + batch.start_pos[s] / block_size;
    return writer_[static_cast<std::size_t>(batch.block_table[static_cast<std::size_t>(entry)])];
  };
  for (std::size_t s = 0; s < sequences; ++s) {
    if (batch.row_begin[s + 1] - batch.row_begin[s] != 1) return false;
  }
  bool apart = true;
  for (std::size_t s = 0; s < sequences; ++s) apart &= ++written(s) == 1;
  for (std::size_t s = 0; apart && s < sequences; ++s) {
    const std::int32_t begin = batch.table_begin[s];
    for (std::int32_t i = begin; i < begin + batch.start_pos[s] / block_size; ++i) {
      const std::int32_t block = batch.block_table[static_cast<std::size_t>(i)];
      apart &= block < 0 || writer_[static_cast<std::size_t>(block)] == 0;
    }
  }
  for (std::size_t s = 0; s < sequences; ++s) written(s) = 0;
  return apart;
}

bool CpuBackend::apart_in_step(const AttentionBatch& batch, const AttentionParams& params,
                               CpuKvCache& cache) {
  CpuKvCache::StepTables& known = cache.tables[static_cast<std::size_t>(params.group)];
  if (batch.step == 0 || batch.step != known.step) known = {batch.step, rows_apart(batch, cache)};
  return known.apart;
}

// Of the block's one row: turns the item's query heads, in scratch (items of other spans turn them,
// too), and K; `store` is what puts K and V in the cache.
void CpuBackend::enter_row(const AttentionCall& call, const RowBlock& block, std::int64_t unit,
                           AttentionItem* item, KvStore* store) const {
  const NewRows& rows = *call.fresh;
  const AttentionParams& params = call.params;
  const std::int64_t head_dim = params.head_dim, half = rows.rotary_dim / 2;
  const std::int64_t row = block.first_row, kv_head = call.kv_head(unit);
  float* to = item->scratch + heads_offset(head_dim, params.v_head_dim);
  const auto turned = [&](const float* heads, std::int64_t count) {
    float* const begin = to;
    to = std::copy(heads, heads + count * head_dim, begin);
    for (float* head = begin; half > 0 && head < to; head += head_dim) {
      kernels_.vec.rope(head, rows.cos + row * half, rows.sin + row * half, rows.rotary_dim,
                        rows.interleaved);
    }
    return begin;
  };
  item->q = turned(item->q, item->heads);
  const float* const k = call.q + row * call.q_stride + params.q_heads * head_dim;
  const auto group = static_cast<std::size_t>(params.group);
  store->k = turned(k + kv_head * head_dim, 1);
  store->v = k + params.kv_heads * head_dim + kv_head * params.v_head_dim;
  store->rows = 1;
  store->block_size = item->kv.block_size;
  store->block = rows.cache.groups[group].data() +
                 item->kv.blocks[item->first_pos / store->block_size] * item->kv.block_stride +
                 rows.cache.part_offset(group, params.layer, kv_head);
  store->offset = static_cast<std::int32_t>(item->first_pos % store->block_size);
  store->head_dim = params.head_dim;
  store->v_head_dim = params.v_head_dim;
  store->dtype = rows.cache.geometry.dtype;
}

void CpuBackend::rope_and_attend(float* qkv, const float* cos, const float* sin,
                                 std::int32_t rotary_dim, bool interleaved,
                                 const AttentionBatch& batch, const AttentionParams& params,
                                 KvCache& kv_cache, float* out) {
  auto& cache = static_cast<CpuKvCache&>(kv_cache);
  touch_beyond(batch, params, cache);
  const NewRows rows{cos, sin, rotary_dim, interleaved, cache};
  const std::int64_t stride = std::int64_t{params.q_heads + params.kv_heads} * params.head_dim +
                              std::int64_t{params.kv_heads} * params.v_head_dim;
  AttentionCall call{qkv, stride, batch, params, cache, out};
  // Query heads in several items: none of them owns the KV head.
  if (call.chunks() == 1 && apart_in_step(batch, params, cache)) {
    call.fresh = &rows;
  } else {
    rope_and_store(qkv, stride, rows, batch, params);
  }
  const TraceSpan span(TraceKind::kAttention, batch.row_begin.back());
  attend(call);
}

}  // namespace quire
