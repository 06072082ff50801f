// Mixture of experts (Shazeer et al., 2017): each token goes to its top_k experts, and all to a
// shared one where there is one. A step's tokens are grouped by expert, so that an expert's weights
// are read once; a token's experts are added in its own order of rank, so that its bits do not
// depend on the other tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/layers/mixer.h"
#include "model/layers/mlp.h"
#include "model/layers/weight_loader.h"
#include "model/spec.h"

namespace quire {

class Moe final : public FeedForward {
 public:
  // prefix: "model.layers.3."
  static Result<std::unique_ptr<FeedForward>> load(WeightLoader& loader, const std::string& prefix,
                                                   std::int64_t hidden, const MoeSpec& spec);
  void forward(Backend& backend, Workspace& workspace, const float* x, std::int64_t rows,
               Epilogue epilogue, float* y) const override;
  std::int64_t scratch_floats_per_row() const override;

 private:
  // The (row, rank) pairs of a step, grouped by expert.
  struct Groups {
    std::int32_t* begin;  // [experts + 1]: pairs of expert e are [begin[e], begin[e + 1])
    std::int32_t* row;    // [pairs], by expert, rows ascending
    float* weight;        // [pairs]
    std::int32_t* place;  // [rows, top_k]: where a row's pair lies among the grouped
  };
  Groups group(Workspace& workspace, const std::int32_t* ids, const float* weights,
               std::int64_t rows) const;
  void run_experts(Backend& backend, Workspace& workspace, const Groups& groups, const float* x,
                   std::int64_t pairs, float* outputs) const;
  void add_shared(Backend& backend, Workspace& workspace, const float* x, std::int64_t rows,
                  float* y) const;

  std::int64_t hidden_ = 0;
  RouteArgs route_;
  std::vector<float> correction_bias_;
  std::unique_ptr<Linear> router_;
  std::vector<std::unique_ptr<Mlp>> experts_;
  std::vector<const Linear*> ups_, downs_;  // theirs
  std::unique_ptr<FeedForward> shared_;
  std::unique_ptr<Linear> shared_gate_;
};

}  // namespace quire
