// What a model file holds, as text for a person: `quire inspect FILE`.
#pragma once

#include <cstdint>
#include <string>

#include "weights/weight_source.h"

namespace quire {

struct InspectOptions {
  bool list_tensors = false;  // one line per tensor: name, type, shape, bytes
};

// Lines of "label: value", each ended by a newline.
std::string describe_model(const ModelFiles& files, const InspectOptions& options = {});

// Elements of all tensors that the model's files hold.
std::int64_t count_parameters(const WeightSource& weights);

}  // namespace quire
