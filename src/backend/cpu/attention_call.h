// One call of the CPU backend's attention: what its work items have in common.
#pragma once

#include <algorithm>

#include "backend/cpu/cpu_backend.h"

namespace quire {

// A state of `vectors` query vectors in memory of state_floats(vectors).
inline std::int64_t state_floats(std::int64_t vectors, std::int64_t v_head_dim) {
  return round_up_16(vectors) * 2 + vectors * round_up_16(v_head_dim);
}
// Scratch of a thread: the kernel's, the running state and that of one span, then the heads of a
// row that enter_row turns (its query heads of one KV head, and K).
inline std::int64_t states_offset(std::int64_t head_dim, std::int64_t v_head_dim) {
  return attention_scratch_floats(head_dim, v_head_dim);
}
inline std::int64_t heads_offset(std::int64_t head_dim, std::int64_t v_head_dim) {
  return states_offset(head_dim, v_head_dim) + 2 * state_floats(kMaxQueryVectors, v_head_dim);
}
inline SoftmaxState state_at(float* p, std::int64_t vectors) {
  const std::int64_t padded = round_up_16(vectors);
  return {p, p + padded, p + 2 * padded};
}

// K and V of the step's rows: row r at k + r * k_stride, heads following each other.
struct CpuBackend::KvSource {
  const float* k;
  const float* v;
  std::int64_t k_stride, v_stride;
};

// Of rows that a call takes in as it attends to them: how they turn, and where K and V go.
struct CpuBackend::NewRows {
  const float* cos;  // [rows, rotary_dim / 2]
  const float* sin;
  std::int32_t rotary_dim;
  bool interleaved;
  CpuKvCache& cache;
};

struct CpuBackend::AttentionCall {
  const float* q;
  std::int64_t q_stride;
  const AttentionBatch& batch;
  const AttentionParams& params;
  const CpuKvCache& cache;
  float* out;
  const NewRows* fresh = nullptr;  // rows whose K and V are not in the cache yet; null: all are
  // The state before any key: with a sink, that of a key with the sink's logit and no value.
  void start_state(const SoftmaxState& state, std::int64_t unit, std::int64_t vectors) const {
    std::fill(state.acc, state.acc + vectors * round_up_16(params.v_head_dim), 0.0f);
    for (std::int64_t i = 0; i < vectors; ++i) {
      const bool sink = params.sinks != nullptr;
      state.max[i] = sink ? params.sinks[first_head(unit) + i % heads(unit)] : kNoScore;
      state.sum[i] = sink ? 1.0f : 0.0f;
    }
  }
  // Query heads of one KV head are taken kMaxQueryVectors at a time.
  std::int64_t heads_per_kv() const { return params.q_heads / params.kv_heads; }
  std::int64_t chunk_heads() const {
    return std::min<std::int64_t>(heads_per_kv(), kMaxQueryVectors);
  }
  std::int64_t chunks() const { return (heads_per_kv() + chunk_heads() - 1) / chunk_heads(); }
  std::int64_t rows_per_block() const { return kMaxQueryVectors / chunk_heads(); }
  std::int64_t units() const { return params.kv_heads * chunks(); }  // work items of one row block
  std::int64_t vectors_per_slot() const { return rows_per_block() * chunk_heads(); }
  std::int64_t kv_head(std::int64_t unit) const { return unit / chunks(); }
  std::int64_t first_head(std::int64_t unit) const {
    return kv_head(unit) * heads_per_kv() + unit % chunks() * chunk_heads();
  }
  std::int64_t heads(std::int64_t unit) const {
    return std::min(chunk_heads(), heads_per_kv() - unit % chunks() * chunk_heads());
  }
};

}  // namespace quire
