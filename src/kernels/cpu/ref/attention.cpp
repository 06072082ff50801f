// Reference attention: one query vector and one key at a time.
#include "kernels/cpu/ref/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/ref/elementwise.h"
#include "kernels/cpu/ref/vector_math.h"
#include "tensor/half.h"

namespace quire::ref {
namespace {

float load(DType dtype, const std::byte* p, std::int64_t index) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(p)[index];
  const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(p)[index];
  return dtype == DType::kBF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

const std::byte* block_of(const KvHead& kv, std::int64_t pos) {
  return kv.base + kv.blocks[pos / kv.block_size] * kv.block_stride;
}
// The scale of an int8 token: of K (part 0) or V (part 1).
float scale_of(const KvHead& kv, std::int64_t pos, std::int64_t part) {
  const std::byte* scales = block_of(kv, pos) + kv_scales_offset(kv);
  return load(DType::kF32, scales, part * kv.block_size + pos % kv.block_size);
}
float key(const KvHead& kv, std::int64_t pos, std::int64_t d) {
  if (kv.dtype == DType::kI8) {
    const auto* codes = reinterpret_cast<const std::int8_t*>(block_of(kv, pos));
    return static_cast<float>(codes[d * kv.block_size + pos % kv.block_size]) *
           scale_of(kv, pos, 0);
  }
  return load(kv.dtype, block_of(kv, pos), d * kv.block_size + pos % kv.block_size);
}
float value(const KvHead& kv, std::int64_t pos, std::int64_t d) {
  if (kv.v_in_k) return key(kv, pos, d);
  if (kv.dtype == DType::kI8) {
    const auto* codes = reinterpret_cast<const std::int8_t*>(block_of(kv, pos)) +
                        std::int64_t{kv.head_dim} * kv.block_size;
    return static_cast<float>(codes[pos % kv.block_size * kv.v_head_dim + d]) *
           scale_of(kv, pos, 1);
  }
  return load(kv.dtype, block_of(kv, pos),
              std::int64_t{kv.head_dim} * kv.block_size + pos % kv.block_size * kv.v_head_dim + d);
}

struct Running {
  float max = kNoScore, sum = 0.0f;
};

// One query vector: its values, its row's position, its head.
struct Query {
  const float* q;
  std::int64_t pos, head;
};

// Adds the visible keys [begin, end) of the tile that starts at `tile`.  acc: [v_head_dim]
void add_tile(const AttentionItem& item, const Query& query, std::int64_t tile, std::int64_t begin,
              std::int64_t end, Running* running, float* acc) {
  float p[kKvTile] = {};  // scores, then their exponentials; masked keys stay 0
  float max = running->max;
  for (std::int64_t pos = begin; pos < end; ++pos) {
    float score = 0.0f;
    for (std::int32_t d = 0; d < item.kv.head_dim; ++d) {
      score = std::fma(query.q[d] * item.scale, key(item.kv, pos, d), score);
    }
    if (item.soft_cap > 0.0f) score = soft_cap(item.soft_cap, score);
    if (item.alibi != nullptr)
      score = std::fma(item.alibi[query.head], static_cast<float>(pos - query.pos), score);
    p[pos - tile] = score;
    max = std::max(max, score);
  }
  for (std::int64_t pos = begin; pos < end; ++pos) p[pos - tile] = softmax_exp(p[pos - tile] - max);
  const float correction = exp(running->max - max);
  running->max = max;
  running->sum = std::fma(running->sum, correction, fold_lanes(p));
  for (std::int32_t d = 0; d < item.kv.v_head_dim; ++d) {
    acc[d] *= correction;
    for (std::int64_t pos = begin; pos < end; ++pos)
      acc[d] = std::fma(p[pos - tile], value(item.kv, pos, d), acc[d]);
  }
}

}  // namespace

void attention_span(const AttentionItem& item, const SoftmaxState& state) {
  const std::int64_t padded = round_up_16(item.kv.v_head_dim);
  const std::int64_t span_begin = item.span * kKvSpan, span_end = span_begin + kKvSpan;
  if (item.store != nullptr) store_kv(*item.store);
  for (std::int64_t i = 0; i < std::int64_t{item.rows} * item.heads; ++i) {
    const std::int64_t pos = item.first_pos + i / item.heads;
    const std::int64_t head = i % item.heads;
    const Query query{item.q + i / item.heads * item.q_stride + head * item.kv.head_dim, pos, head};
    std::int64_t first = std::max(span_begin, item.window > 0 ? pos - item.window + 1 : 0);
    if (item.chunk > 0) first = std::max(first, pos - pos % item.chunk);
    const std::int64_t end = std::min(span_end, pos + 1);
    Running running;
    float* acc = state.acc + i * padded;
    std::fill(acc, acc + padded, 0.0f);
    for (std::int64_t tile = first / kKvTile * kKvTile; tile < end; tile += kKvTile) {
      add_tile(item, query, tile, std::max(first, tile),
               std::min<std::int64_t>(end, tile + kKvTile), &running, acc);
    }
    state.max[i] = running.max;
    state.sum[i] = running.sum;
  }
}

void attention_merge(const SoftmaxState& next, std::int64_t vectors, std::int64_t v_head_dim,
                     const SoftmaxState& state) {
  const std::int64_t padded = round_up_16(v_head_dim);
  for (std::int64_t i = 0; i < vectors; ++i) {
    const float max = std::max(state.max[i], next.max[i]);
    const float old_factor = exp(state.max[i] - max), next_factor = exp(next.max[i] - max);
    state.max[i] = max;
    state.sum[i] = std::fma(next.sum[i], next_factor, state.sum[i] * old_factor);
    for (std::int64_t d = i * padded; d < i * padded + v_head_dim; ++d) {
      state.acc[d] = std::fma(next.acc[d], next_factor, state.acc[d] * old_factor);
    }
  }
}

void attention_finish(const SoftmaxState& state, std::int64_t vectors, std::int64_t heads,
                      std::int64_t v_head_dim, std::int64_t out_stride, float* out) {
  const std::int64_t padded = round_up_16(v_head_dim);
  for (std::int64_t i = 0; i < vectors; ++i) {
    float* const row = out + i / heads * out_stride + i % heads * v_head_dim;
    for (std::int64_t d = 0; d < v_head_dim; ++d)
      row[d] = state.acc[i * padded + d] / state.sum[i] + 0.0f;
  }
}

}  // namespace quire::ref
