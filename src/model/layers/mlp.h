// Feed-forward layers of one branch: gated (Shazeer, 2020), down(act(gate(x)) * up(x)), or plain,
// down(act(up(x))).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/layers/mixer.h"
#include "model/layers/weight_loader.h"
#include "model/spec.h"

namespace quire {

// The activation's options from the specification, and from the file where they are learned. prefix
// as in Mlp::load
Result<ActivationArgs> load_activation(WeightLoader& loader, const std::string& prefix,
                                       const MlpSpec& spec);

class Mlp final : public FeedForward {
 public:
  // prefix: "model.layers.3."
  static Result<std::unique_ptr<Mlp>> load(WeightLoader& loader, const std::string& prefix,
                                           std::int64_t hidden, const MlpSpec& spec);
  // Of matrices packed by someone else.  up: gate | up when gated
  Mlp(const ActivationArgs& activation, std::unique_ptr<Linear> up, std::unique_ptr<Linear> down)
      : activation_(activation), up_(std::move(up)), down_(std::move(down)) {}

  void forward(Backend& backend, Workspace& workspace, const float* x, std::int64_t rows,
               Epilogue epilogue, float* y) const override {
    const std::size_t mark = workspace.mark();
    float* projected = workspace.take<float>(rows * up_->outputs);
    float* active = workspace.take<float>(rows * down_->inputs);
    backend.mlp({activation_, *up_, *down_, projected, active, epilogue}, x, rows, y);
    workspace.release_to(mark);
  }
  std::int64_t scratch_floats_per_row() const override { return up_->outputs + down_->inputs; }

  const ActivationArgs& activation() const { return activation_; }
  const Linear& up() const { return *up_; }
  const Linear& down() const { return *down_; }

 private:
  ActivationArgs activation_;
  std::unique_ptr<Linear> up_;  // gate, then up
  std::unique_ptr<Linear> down_;
};

}  // namespace quire
