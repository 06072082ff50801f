// Rotary position embedding (Su et al., 2021): the inverse frequencies of each scaling kind.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "weights/model_config.h"

namespace quire {

// rotary_dim / 2 values: position p rotates pair i by p * value[i] radians. kUnsupported for a kind not built.
Result<std::vector<double>> inverse_frequencies(const RopeConfig& rope);

}  // namespace quire
