// Grouped-query self-attention over the paged cache, with the options of AttentionSpec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/layers/mixer.h"
#include "model/layers/norm.h"
#include "model/layers/weight_loader.h"
#include "model/spec.h"

namespace quire {

class Attention final : public Mixer {
 public:
  // prefix: "model.layers.3."
  static Result<std::unique_ptr<Mixer>> load(WeightLoader& loader, const std::string& prefix,
                                             std::int64_t hidden, const AttentionSpec& spec);
  void forward(Backend& backend, Workspace& workspace, const MixerContext& context, const float* x,
               Epilogue epilogue, float* y) const override;
  std::int64_t scratch_floats_per_row() const override;
  std::optional<KvGroup> kv_group() const override;

 private:
  // Norms, positions, the cache and attention.  projected: [rows, q | k | v | gate]; mixed: [rows,
  // q_heads * v_head_dim]
  void attend(Backend& backend, Workspace& workspace, const MixerContext& context,
              const AttentionParams& params, const RopeTable& rope, float* projected,
              float* mixed) const;
  void norm_heads(Backend& backend, std::int64_t rows, float* projected) const;
  void scale_by_position(Backend& backend, Workspace& workspace, const ModelInput& input,
                         float* projected) const;

  AttentionSpec spec_;
  AttentionParams params_;  // group and layer come from the model
  std::vector<float> sinks_;
  Norm q_norm_, k_norm_;
  std::unique_ptr<Linear> qkv_;  // rows q | k | v | gate
  std::unique_ptr<Linear> output_;
};

}  // namespace quire
