// How a model wants its hidden states pooled into embeddings: sentence-transformers' files in a
// Hugging Face folder, or a GGUF's pooling_type. A model that says nothing gets its last token's
// state.
#pragma once

#include <string>

#include "base/result.h"
#include "tensor/pooling.h"
#include "weights/weight_source.h"

namespace quire {

struct PoolingConfig {
  Pooling pooling = Pooling::kLast;
  bool normalize = true;    // to length 1
  std::string unsupported;  // why embeddings of this model can't be made; empty: they can
};

Result<PoolingConfig> read_pooling_config(const ModelFiles& files);
// folder: may hold modules.json and N_Pooling/config.json.
Result<PoolingConfig> read_hf_pooling(const std::string& folder);

}  // namespace quire
