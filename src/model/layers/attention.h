// Grouped-query self-attention with rotary positions over the paged cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/layers/weight_loader.h"
#include "model/model.h"

namespace quire {

// cos and sin of the step's rows, computed once and shared by all layers.  [rows, rotary_dim / 2]
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int32_t rotary_dim = 0;
  bool interleaved = false;
};

struct AttentionLayer {
  std::unique_ptr<Linear> qkv;   // q, k, v stacked
  std::unique_ptr<Linear> output;
  AttentionParams params;

  // prefix: "model.layers.3.self_attn"
  static Result<AttentionLayer> load(WeightLoader& loader, const std::string& prefix, std::int64_t hidden,
                                     const AttentionParams& params, bool require_bias);
  // residual += attention(x).  x, residual: [rows, hidden]
  void forward(Backend& backend, Workspace& workspace, const ModelInput& input, const RopeTable& rope, KvCache& cache,
               const float* x, float* residual) const;
  std::int64_t scratch_floats_per_row() const;
};

}  // namespace quire
