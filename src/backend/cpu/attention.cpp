// Attention of the CPU backend. A work item is a block of rows of one sequence with the query heads
// of one KV head. An item goes over its KV spans in ascending order, merging each into its state.
// When there are too few items for the threads (a long sequence decoding), or one of them is too
// big (a chunk of a long prompt among short sequences), every span is an item of its own, and a
// second phase merges their states in the same ascending order: the same additions, so the same
// bits.
#include <algorithm>

#include "backend/cpu/attention_call.h"
#include "base/trace.h"

namespace quire {
namespace {

// Below this many items per thread, spans are spread too; so they are when one item is more than
// one in this many parts of what a thread gets.
constexpr std::int64_t kFewItemsPerThread = 2;
// From this many row blocks per thread on, a thread takes all KV heads of one.
constexpr std::int64_t kManyBlocksPerThread = 8;
// Multiply-adds below which waking the other threads costs more than it brings.
constexpr std::int64_t kMinParallelAttention = 1 << 15;

}  // namespace

void CpuBackend::reserve_attention(const CpuKvCache& cache) {
  std::int64_t scratch = 0, state = 0, spans = 0;
  for (std::size_t g = 0; g < cache.geometry.groups.size(); ++g) {
    const KvGroup& group = cache.geometry.groups[g];
    const std::int64_t one_state = state_floats(kMaxQueryVectors, group.v_head_dim);
    scratch = std::max(scratch, heads_offset(group.head_dim, group.v_head_dim) +
                                    (kMaxQueryVectors + 1) * std::int64_t{group.head_dim});
    state = std::max(state, one_state);
    const std::int64_t positions = std::int64_t{cache.num_blocks[g]} * cache.geometry.block_size;
    spans = std::max(spans, positions / kKvSpan + 2);
  }
  attention_scratch_floats_ = round_up_16(scratch) + 16;
  attention_scratch_ =
      Buffer(static_cast<std::size_t>(attention_scratch_floats_ * pool_.size()) * sizeof(float));
  // Address space; decoding uses a few vectors of each state only.
  const std::int64_t items = kFewItemsPerThread * pool_.size();
  partials_ = Buffer(static_cast<std::size_t>(items * spans * state) * sizeof(float));
}

void CpuBackend::plan_attention(const AttentionCall& call) {
  row_blocks_.clear();
  span_ends_.clear();
  std::int64_t spans = 0;
  for (std::size_t s = 0; s + 1 < call.batch.row_begin.size(); ++s) {
    const std::int32_t end = call.batch.row_begin[s + 1];
    for (std::int32_t row = call.batch.row_begin[s]; row < end;) {
      RowBlock block;
      block.sequence = static_cast<std::int32_t>(s);
      block.first_row = row;
      block.rows =
          static_cast<std::int32_t>(std::min<std::int64_t>(call.rows_per_block(), end - row));
      const std::int64_t pos = call.batch.start_pos[s] + (row - call.batch.row_begin[s]);
      std::int64_t first_key =
          call.params.window > 0 ? std::max<std::int64_t>(0, pos - call.params.window + 1) : 0;
      if (call.params.chunk > 0) first_key = std::max(first_key, pos - pos % call.params.chunk);
      block.first_span = static_cast<std::int32_t>(first_key / kKvSpan);
      block.num_spans =
          static_cast<std::int32_t>((pos + block.rows - 1) / kKvSpan) - block.first_span + 1;
      block.first_slot = spans * call.units();
      spans += block.num_spans;
      row_blocks_.push_back(block);
      span_ends_.push_back(spans);
      row += block.rows;
    }
  }
}

AttentionItem CpuBackend::make_item(const AttentionCall& call, const RowBlock& block,
                                    std::int64_t unit, float* scratch) const {
  const auto group = static_cast<std::size_t>(call.params.group);
  const auto s = static_cast<std::size_t>(block.sequence);
  AttentionItem item;
  item.kv.base = call.cache.groups[group].data() +
                 call.cache.part_offset(group, call.params.layer, call.kv_head(unit));
  item.kv.block_stride = call.cache.geometry.block_bytes(group);
  item.kv.blocks = call.batch.block_table.data() + call.batch.table_begin[s];
  item.kv.block_size = call.cache.geometry.block_size;
  item.kv.dtype = call.cache.geometry.dtype;
  item.kv.head_dim = call.params.head_dim;
  item.kv.v_head_dim = call.params.v_head_dim;
  item.kv.v_in_k = call.params.v_in_k;
  item.q = call.q + block.first_row * call.q_stride + call.first_head(unit) * call.params.head_dim;
  item.q_stride = call.q_stride;
  item.rows = block.rows;
  item.heads = static_cast<std::int32_t>(call.heads(unit));
  item.first_pos = call.batch.start_pos[s] + (block.first_row - call.batch.row_begin[s]);
  item.scale = call.params.scale;
  item.window = call.params.window;
  item.chunk = call.params.chunk;
  item.soft_cap = call.params.soft_cap;
  if (call.params.alibi != nullptr) item.alibi = call.params.alibi + call.first_head(unit);
  item.scratch = scratch;
  return item;
}

void CpuBackend::finish_item(const AttentionCall& call, const RowBlock& block, std::int64_t unit,
                             const SoftmaxState& state) const {
  const std::int64_t v_head_dim = call.params.v_head_dim,
                     out_stride = std::int64_t{call.params.q_heads} * v_head_dim;
  kernels_.vec.attention_finish(
      state, block.rows * call.heads(unit), call.heads(unit), v_head_dim, out_stride,
      call.out + block.first_row * out_stride + call.first_head(unit) * v_head_dim);
}

// Item = (row block, unit): all spans, then the result. more: the thread goes on with the next
// unit.
void CpuBackend::attend_whole(const AttentionCall& call, std::int64_t item, bool more,
                              float* scratch) {
  const RowBlock& block = row_blocks_[static_cast<std::size_t>(item / call.units())];
  const std::int64_t unit = item % call.units(), v_head_dim = call.params.v_head_dim;
  AttentionItem work = make_item(call, block, unit, scratch);
  const std::int64_t vectors = std::int64_t{work.rows} * work.heads;
  float* const states = scratch + states_offset(call.params.head_dim, v_head_dim);
  const SoftmaxState state = state_at(states, kMaxQueryVectors);
  const SoftmaxState next =
      state_at(states + state_floats(kMaxQueryVectors, v_head_dim), kMaxQueryVectors);
  KvStore store;
  if (call.fresh != nullptr) enter_row(call, block, unit, &work, &store);
  // Without a sink the first span's state is that of all keys so far.
  const bool sinks = call.params.sinks != nullptr;
  if (sinks) call.start_state(state, unit, vectors);
  for (std::int64_t i = 0; i < block.num_spans; ++i) {
    work.span = block.first_span + i;
    const bool alone = i == 0 && !sinks, last = i + 1 == block.num_spans;
    if (call.fresh != nullptr && last) work.store = &store;
    if (more && last) work.next_base = make_item(call, block, unit + 1, scratch).kv.base;
    kernels_.vec.attention_span(work, alone ? state : next);
    if (!alone) kernels_.vec.attention_merge(next, vectors, v_head_dim, state);
  }
  finish_item(call, block, unit, state);
}

// All units of a row block.
void CpuBackend::attend_block(const AttentionCall& call, std::int64_t block, float* scratch) {
  for (std::int64_t unit = 0; unit < call.units(); ++unit)
    attend_whole(call, block * call.units() + unit, unit + 1 < call.units(), scratch);
}

// Item = (span of a row block, unit): its state goes to slot `item` of partials_.
void CpuBackend::attend_span(const AttentionCall& call, std::int64_t item, float* scratch) {
  const std::int64_t span = item / call.units(), unit = item % call.units();
  const auto found = std::upper_bound(span_ends_.begin(), span_ends_.end(), span);
  const RowBlock& block = row_blocks_[static_cast<std::size_t>(found - span_ends_.begin())];
  AttentionItem work = make_item(call, block, unit, scratch);
  work.span = block.first_span + (span - block.first_slot / call.units());
  KvStore store;
  if (call.fresh != nullptr) {
    enter_row(call, block, unit, &work, &store);
    if (work.span + 1 == block.first_span + block.num_spans) work.store = &store;
  }
  const std::int64_t slot_floats = state_floats(call.vectors_per_slot(), call.params.v_head_dim);
  kernels_.vec.attention_span(
      work, state_at(partials_.as<float>() + item * slot_floats, call.vectors_per_slot()));
}

// Item = (row block, unit), after all of its spans.
void CpuBackend::merge_spans(const AttentionCall& call, std::int64_t item, float* scratch) {
  const RowBlock& block = row_blocks_[static_cast<std::size_t>(item / call.units())];
  const std::int64_t unit = item % call.units(), v_head_dim = call.params.v_head_dim;
  const std::int64_t vectors = block.rows * call.heads(unit);
  const std::int64_t slot_floats = state_floats(call.vectors_per_slot(), v_head_dim);
  const SoftmaxState state = state_at(scratch, kMaxQueryVectors);
  call.start_state(state, unit, vectors);
  for (std::int64_t i = 0; i < block.num_spans; ++i) {
    float* const slot =
        partials_.as<float>() + (block.first_slot + i * call.units() + unit) * slot_floats;
    kernels_.vec.attention_merge(state_at(slot, call.vectors_per_slot()), vectors, v_head_dim,
                                 state);
  }
  finish_item(call, block, unit, state);
}

void CpuBackend::attention(const float* q, std::int64_t q_stride, const AttentionBatch& batch,
                           const AttentionParams& params, const KvCache& kv_cache, float* out) {
  const TraceSpan span(TraceKind::kAttention, batch.row_begin.back());
  attend({q, q_stride, batch, params, static_cast<const CpuKvCache&>(kv_cache), out});
}

void CpuBackend::attend(const AttentionCall& call) {
  const AttentionBatch& batch = call.batch;
  const AttentionParams& params = call.params;
  plan_attention(call);
  if (row_blocks_.empty()) return;
  const auto blocks = static_cast<std::int64_t>(row_blocks_.size());
  const std::int64_t items = blocks * call.units();
  const std::int64_t span_items = span_ends_.back() * call.units();
  const std::int64_t slot_floats = state_floats(call.vectors_per_slot(), params.v_head_dim);
  const auto scratch_of = [&](int thread) {
    return attention_scratch_.as<float>() + attention_scratch_floats_ * thread;
  };

  std::int64_t keys = 0, most_keys = 0;  // work: (row, key) pairs, roughly; of the biggest block
  for (const RowBlock& block : row_blocks_) {
    const auto s = static_cast<std::size_t>(block.sequence);
    const std::int64_t reach =
        batch.start_pos[s] + (block.first_row - batch.row_begin[s]) + block.rows;
    const std::int64_t limit = params.window > 0 ? params.window : params.chunk;
    const std::int64_t block_keys = block.rows * (limit > 0 ? std::min(reach, limit) : reach);
    keys += block_keys;
    most_keys = std::max(most_keys, block_keys);
  }
  if (pool_.size() == 1 || keys * params.q_heads * params.head_dim < kMinParallelAttention) {
    for (std::int64_t b = 0; b < blocks; ++b) attend_block(call, b, scratch_of(0));
    return;
  }
  const bool uneven = items < kFewItemsPerThread * pool_.size() ||
                      most_keys * kFewItemsPerThread * pool_.size() > keys * call.units();
  const bool spread_spans = uneven && span_items > items &&
                            span_items * slot_floats * static_cast<std::int64_t>(sizeof(float)) <=
                                static_cast<std::int64_t>(partials_.size());
  next_item_.store(0, std::memory_order_relaxed);
  next_merge_.store(0, std::memory_order_relaxed);
  const auto take = [](std::atomic<std::int64_t>& next) {
    return next.fetch_add(1, std::memory_order_relaxed);
  };
  pool_.run([&](int thread) {
    // Last first: later rows of a prompt see more keys, so the big items go out before the small
    // ones.
    if (!spread_spans && blocks >= kManyBlocksPerThread * pool_.size()) {
      for (std::int64_t b; (b = take(next_item_)) < blocks;)
        attend_block(call, blocks - 1 - b, scratch_of(thread));
      return;
    }
    if (!spread_spans) {
      for (std::int64_t i; (i = take(next_item_)) < items;)
        attend_whole(call, items - 1 - i, false, scratch_of(thread));
      return;
    }
    for (std::int64_t i; (i = take(next_item_)) < span_items;) {
      attend_span(call, span_items - 1 - i, scratch_of(thread));
    }
    pool_.barrier();
    for (std::int64_t i; (i = take(next_merge_)) < items;) merge_spans(call, i, scratch_of(thread));
  });
}

}  // namespace quire
