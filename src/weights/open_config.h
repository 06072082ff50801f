// A Hugging Face folder without its weights: for weights that are made up, and for looking at a
// configuration.
#pragma once

#include <string>

#include "weights/weight_source.h"

namespace quire {

// As open_model on a folder with a config.json, but no weights are looked for: files.weights stays
// null.
Result<ModelFiles> open_without_weights(const std::string& folder, const OpenOptions& options);

}  // namespace quire
