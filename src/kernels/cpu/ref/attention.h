// Reference attention; the contracts are in vector_kernels.h.
#pragma once

#include "kernels/cpu/vector_kernels.h"

namespace quire::ref {

void store_kv(const KvStore& s);
void attention_span(const AttentionItem& item, const SoftmaxState& state);
void attention_merge(const SoftmaxState& next, std::int64_t vectors, std::int64_t v_head_dim,
                     const SoftmaxState& state);
void attention_finish(const SoftmaxState& state, std::int64_t vectors, std::int64_t heads,
                      std::int64_t v_head_dim, std::int64_t out_stride, float* out);

}  // namespace quire::ref
