// RMS normalisation (Zhang and Sennrich, 2019).
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace quire {

struct RmsNorm {
  std::vector<float> weight;  // [hidden]
  float eps = 1e-5f;

  // y may be x.  x, y: [rows, hidden]
  void forward(Backend& backend, const float* x, std::int64_t rows, float* y) const {
    backend.rms_norm(x, weight.data(), eps, rows, static_cast<std::int64_t>(weight.size()), y);
  }
};

}  // namespace quire
