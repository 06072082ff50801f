// One function per architecture: what a configuration means, as a ModelSpec. Each lives in arch_<family>.cpp and has a
// line in registry.cpp.
#pragma once

#include "base/result.h"
#include "model/spec.h"

namespace quire {

Result<ModelSpec> llama_spec(const ModelConfig& config);

}  // namespace quire
