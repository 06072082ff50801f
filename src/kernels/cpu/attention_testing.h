// Shared by the tests of attention: a cache of random K and V, and the result of all spans of an
// item.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/vector_tables.h"

namespace quire::testing_support {

// A sequence of random K and V in shuffled blocks.
struct Cache {
  std::vector<std::byte> bytes;
  std::vector<std::int32_t> blocks;
  KvHead head;

  Cache(std::int64_t positions, std::int32_t block_size, std::int32_t head_dim,
        std::int32_t v_head_dim, DType dtype) {
    const auto entries = static_cast<std::int32_t>((positions + block_size - 1) / block_size);
    for (std::int32_t i = 0; i < entries; ++i) blocks.push_back((i * 7 + 3) % (entries * 7 + 1));
    head.block_stride =
        std::int64_t{head_dim + v_head_dim} * block_size * dtype_info(dtype).block_bytes +
        (dtype == DType::kI8 ? 8 * block_size : 0);
    // What no position wrote is NaN (all ones), as stale memory may be.
    bytes.resize(static_cast<std::size_t>(head.block_stride * (entries * 7 + 1)), std::byte{0xff});
    head.base = bytes.data();
    head.blocks = blocks.data();
    head.block_size = block_size;
    head.dtype = dtype;
    head.head_dim = head_dim;
    head.v_head_dim = v_head_dim;
    const auto k = random_floats(positions * head_dim, 11),
               v = random_floats(positions * v_head_dim, 12);
    for (std::int64_t pos = 0; pos < positions; ++pos) {
      store(reference(), k.data() + pos * head_dim, v.data() + pos * v_head_dim, 1, pos);
    }
  }
  void store(const VectorKernels& kernels, const float* k, const float* v, std::int32_t rows,
             std::int64_t pos) {
    KvStore s;
    s.k = k;
    s.v = v;
    s.rows = rows;
    s.block =
        bytes.data() + blocks[static_cast<std::size_t>(pos / head.block_size)] * head.block_stride;
    s.block_size = head.block_size;
    s.offset = static_cast<std::int32_t>(pos % head.block_size);
    s.head_dim = head.head_dim;
    s.v_head_dim = head.v_head_dim;
    s.dtype = head.dtype;
    kernels.store_kv(s);
  }
};

// Latent attention: V is the first part of K, in `inside`; `copied` has it once more by itself. The
// item reads `copied`.
struct LatentProblem {
  static constexpr std::int64_t kFirst = 77;
  static constexpr std::int32_t kHeads = 3;
  Cache copied, inside;
  std::vector<float> q;
  AttentionItem item;

  LatentProblem(std::int32_t head_dim, std::int32_t v_head_dim, std::int32_t block_size,
                std::int32_t rows, DType dtype, float scale)
      : copied(kFirst + rows, block_size, head_dim, v_head_dim, dtype),
        inside(kFirst + rows, block_size, head_dim, 0, dtype),
        q(random_floats(std::int64_t{rows} * kHeads * head_dim, 31)) {
    const auto k = random_floats((kFirst + rows) * head_dim, 11);
    for (std::int64_t pos = 0; pos < kFirst + rows; ++pos) {
      const float* const row = k.data() + pos * head_dim;
      copied.store(reference(), row, row, 1, pos);
    }
    inside.head.v_head_dim = v_head_dim;
    inside.head.v_in_k = true;
    item.kv = copied.head;
    item.q = q.data();
    item.q_stride = std::int64_t{kHeads} * head_dim;
    item.rows = rows;
    item.heads = kHeads;
    item.first_pos = kFirst;
    item.scale = scale;
  }
};

// The result of all spans, merged and finished.  [rows * heads, v_head_dim]
inline std::vector<float> attend(const VectorKernels& kernels, AttentionItem item) {
  const auto vectors = static_cast<std::size_t>(item.rows * item.heads);
  const auto padded = static_cast<std::size_t>(round_up_16(item.kv.v_head_dim));
  std::vector<float> scratch(
      static_cast<std::size_t>(attention_scratch_floats(item.kv.head_dim, item.kv.v_head_dim)),
      NAN);
  std::vector<float> max(vectors, kNoScore), sum(vectors, 0.0f), acc(vectors * padded, 0.0f);
  std::vector<float> next_max(vectors), next_sum(vectors), next_acc(vectors * padded);
  const SoftmaxState state{max.data(), sum.data(), acc.data()};
  const SoftmaxState next{next_max.data(), next_sum.data(), next_acc.data()};
  item.scratch = scratch.data();
  for (item.span = 0; item.span * kKvSpan < item.first_pos + item.rows; ++item.span) {
    kernels.attention_span(item, next);
    kernels.attention_merge(next, static_cast<std::int64_t>(vectors), item.kv.v_head_dim, state);
  }
  std::vector<float> out(vectors * static_cast<std::size_t>(item.kv.v_head_dim));
  kernels.attention_finish(state, static_cast<std::int64_t>(vectors), item.heads,
                           item.kv.v_head_dim, std::int64_t{item.heads} * item.kv.v_head_dim,
                           out.data());
  return out;
}

}  // namespace quire::testing_support
