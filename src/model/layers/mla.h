// Multi-head latent attention (DeepSeek-V2, 2024) in its absorbed form: the cache holds one latent
// and one rotary key per token, once (V is a part of K); each head's key and value projections are
// applied to the query and to the mixed latent instead, all heads in one product.
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

class LatentAttention final : public Mixer {
 public:
  // prefix: "model.layers.3."
  static Result<std::unique_ptr<Mixer>> load(WeightLoader& loader, const std::string& prefix,
                                             std::int64_t hidden, const MlaSpec& spec);
  void forward(Backend& backend, Workspace& workspace, const MixerContext& context, const float* x,
               Epilogue epilogue, float* y) const override;
  std::int64_t scratch_floats_per_row() const override;
  std::optional<KvGroup> kv_group() const override;

 private:
  Status load_heads(WeightLoader& loader, const std::string& prefix);
  // q: [rows, heads, nope | rope] with row stride -> [rows, heads, latent | rope]
  void absorb(Backend& backend, const float* q, std::int64_t q_stride, std::int64_t rows,
              float* absorbed) const;

  MlaSpec spec_;
  AttentionParams params_;
  Norm q_norm_, kv_norm_;
  std::unique_ptr<Linear> input_;  // rows q_a (or q) | latent | rotary key
  std::unique_ptr<Linear> q_b_;    // null without q_lora_rank
  std::unique_ptr<Linear> key_;    // of every head: nope_dim -> kv_lora_rank
  std::unique_ptr<Linear> value_;  // of every head: kv_lora_rank -> v_dim
  std::unique_ptr<Linear> output_;
};

}  // namespace quire
