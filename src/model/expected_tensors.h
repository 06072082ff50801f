// The tensors that a specification needs of a file, so that all that are missing or misshapen can
// be named at once, before anything is packed. Recurrent mixers look after their own.
#pragma once

#include <vector>

#include "model/spec.h"
#include "weights/weight_source.h"

namespace quire {

// weights: where a file may hold a matrix in more than one form, it is asked which.
std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec, const WeightSource& weights);

}  // namespace quire
