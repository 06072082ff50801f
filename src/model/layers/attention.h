// Grouped-query self-attention with rotary positions over the paged cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/layers/mixer.h"
#include "model/layers/weight_loader.h"
#include "model/model.h"

namespace quire {

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
