// What a model keeps per token and layer, by groups of one lifetime (docs/architecture.md, "KV
// cache").
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace quire {

enum class KvGroupKind : std::uint8_t { kFullAttention, kSlidingWindow, kRecurrentState };

struct KvGroup {
  KvGroupKind kind = KvGroupKind::kFullAttention;
  std::int32_t num_layers = 0;  // layers of the model in this group, in model order
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;  // of K; V has v_head_dim
  std::int32_t v_head_dim = 0;
  std::int32_t window = 0;  // keys a query can reach, itself included; 0: all
  // V is the first v_head_dim elements of K (latent attention): nothing is kept for it.
  bool v_in_k = false;

  // Elements kept of one token, layer and head.
  std::int64_t elements_per_token() const {
    return std::int64_t{head_dim} + (v_in_k ? 0 : v_head_dim);
  }
};

struct KvGeometry {
  std::vector<KvGroup> groups;
  std::int32_t block_size = 32;  // tokens per block
  DType dtype = DType::kBF16;    // of K and V in the cache: F32, BF16, F16 or I8

  // Bytes of one layer's and KV head's part of a block: K, V and, in int8, a scale (f32) of each
  // per token.
  std::int64_t head_bytes(std::size_t g) const {
    const KvGroup& group = groups[g];
    const std::int64_t scales = dtype == DType::kI8 ? 2 * 4 : 0;
    return block_size * (group.elements_per_token() * dtype_info(dtype).block_bytes + scales);
  }
  // Bytes of one block of group g, all its layers, K and V.
  std::int64_t block_bytes(std::size_t g) const {
    return std::int64_t{groups[g].num_layers} * groups[g].kv_heads * head_bytes(g);
  }
};

}  // namespace quire
