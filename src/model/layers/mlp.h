// Gated feed-forward (SwiGLU, Shazeer 2020): down(silu(gate(x)) * up(x)).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/layers/weight_loader.h"
#include "model/model.h"

namespace quire {

struct GatedMlp {
  std::unique_ptr<Linear> gate_up;   // gate, then up
  std::unique_ptr<Linear> down;

  // prefix: "model.layers.3.mlp"
  static Result<GatedMlp> load(WeightLoader& loader, const std::string& prefix, std::int64_t hidden,
                               std::int64_t intermediate, bool require_bias) {
    GatedMlp mlp;
    QUIRE_ASSIGN(mlp.gate_up, loader.linear({{prefix + ".gate_proj", intermediate}, {prefix + ".up_proj", intermediate}},
                                            hidden, require_bias));
    QUIRE_ASSIGN(mlp.down, loader.linear({{prefix + ".down_proj", hidden}}, intermediate, require_bias));
    return mlp;
  }
  // residual += mlp(x).  x, residual: [rows, hidden]
  void forward(Backend& backend, Workspace& workspace, const float* x, std::int64_t rows, float* residual) const {
    const std::size_t mark = workspace.mark();
    float* both = workspace.take<float>(rows * gate_up->outputs);
    float* active = workspace.take<float>(rows * down->inputs);
    backend.linear(x, rows, *gate_up, both, Epilogue::kStore);
    backend.silu_mul(both, rows, down->inputs, active);
    backend.linear(active, rows, *down, residual, Epilogue::kAdd);
    workspace.release_to(mark);
  }
  std::int64_t scratch_floats_per_row() const { return gate_up->outputs + down->inputs; }
};

}  // namespace quire
