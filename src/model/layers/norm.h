// Norms of a model (RMS: Zhang and Sennrich, 2019; LayerNorm: Ba et al., 2016; L2), over whole rows
// or head by head.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/layers/weight_loader.h"
#include "model/spec.h"

namespace quire {

struct Norm {
  NormKind kind = NormKind::kNone;
  float eps = 1e-5f;
  std::vector<float> weight,
      bias;  // [n] or [groups, n], the specification's offset added; bias may be empty
  std::int64_t n = 0, groups = 1;
  bool own_weights = false;

  // Norms of rows of n.  prefix: "model.layers.0.", or empty where the specification names the
  // weights in full
  static Result<Norm> load(WeightLoader& loader, const std::string& prefix, const NormSpec& spec,
                           std::int64_t n);
  // Norms of `heads` parts of head_dim in each row; own_weights: each head has weights of its own.
  static Result<Norm> load_heads(WeightLoader& loader, const std::string& prefix,
                                 const NormSpec& spec, std::int64_t heads, std::int64_t head_dim,
                                 bool own_weights);

  bool none() const { return kind == NormKind::kNone; }
  // y may be x. Strides between rows; 0: the rows follow each other.
  void forward(Backend& backend, const float* x, std::int64_t rows, float* y,
               std::int64_t x_stride = 0, std::int64_t y_stride = 0) const;
};

}  // namespace quire
