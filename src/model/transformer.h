// Any decoder-only model: loads what a ModelSpec describes and runs it, layer by layer. Engine
// thread only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/layers/mixer.h"
#include "model/layers/norm.h"
#include "model/layers/rope.h"
#include "model/model.h"
#include "model/spec.h"
#include "weights/weight_source.h"

namespace quire {

class Transformer final : public Model {
 public:
  // Packs the weights for `backend`, which outlives the model. Errors name the tensor or the
  // option.
  static Result<std::unique_ptr<Model>> load(ModelSpec spec, const WeightSource& weights,
                                             Backend& backend);

  KvGeometry kv_geometry(std::int32_t block_size, DType kv_dtype) const override;
  std::size_t workspace_bytes(std::int64_t max_rows, std::int64_t max_logits) const override;
  void forward(const ModelInput& input, KvCache& cache, Workspace& workspace,
               float* hidden) override;
  void logits(const float* hidden, std::int64_t rows, Workspace& workspace, float* logits) override;
  void final_hidden(const float* hidden, std::int64_t rows, float* out) override;
  std::uint64_t kv_regime(std::int64_t prompt_tokens) const override;
  void reserve_slots(std::int32_t slots) override { states_.reserve_slots(slots); }
  void copy_state(std::int32_t from, std::int32_t to) override { states_.copy(from, to); }

 private:
  struct Layer {
    Norm input_norm, post_mixer_norm, mlp_norm, post_mlp_norm, mixer_sum_norm, mlp_sum_norm;
    bool residual_after_norm = false;
    std::unique_ptr<Mixer> mixer;
    std::unique_ptr<FeedForward> mlp;  // null: none
    bool parallel = false;
    float residual_multiplier = 1.0f;
  };
  // Buffers of a step.  [rows, hidden] each
  struct Step {
    const ModelInput& input;
    MixerContext context;
    Workspace& workspace;
    std::int64_t rows;
    float* hidden;
    float* normed;
    float* branch;
  };

  Transformer(ModelSpec spec, Backend& backend);
  Status load_all(WeightLoader& loader);
  Result<Layer> load_layer(WeightLoader& loader, const LayerSpec& spec);
  void place_in_caches(Mixer& mixer);

  std::int64_t embedding_size() const;
  void embed(const ModelInput& input, Workspace& workspace, float* scratch, float* hidden) const;
  void run_sequential(const Layer& layer, const Step& step) const;
  void run_parallel(const Layer& layer, const Step& step) const;
  // hidden += multiplier * post(run(x, …)); run writes or adds its result to what it is given.
  template <class Run>
  void add_branch(const Step& step, const float* x, const Norm& post, float multiplier,
                  Run&& run) const;
  // norm(hidden), or hidden itself where there is no norm (or it is normalised in place).
  const float* normed_input(const Step& step, const Norm& norm, bool in_place = false) const;

  const ModelSpec spec_;
  Backend& backend_;
  TensorView embedding_, position_embedding_;  // in the mapped file
  Norm embedding_norm_, final_norm_;
  std::vector<Rope> ropes_;
  std::vector<Layer> layers_;
  std::unique_ptr<Linear> head_;
  std::unique_ptr<Linear> project_in_, project_out_;  // null: embedding and head are hidden wide
  std::vector<KvGroup> kv_groups_;
  RecurrentStore states_;
  std::vector<RopeTable> tables_;  // of the step in progress
};

}  // namespace quire
