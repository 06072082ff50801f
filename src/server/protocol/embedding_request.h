// The body of POST /v1/embeddings.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "server/protocol/completion_request.h"

namespace quire {

// The fields of CommonRequest that its table names are read; the others stay as they are.
struct EmbeddingRequest : CommonRequest {
  std::vector<CompletionRequest::Prompt> inputs;  // at least one
  std::optional<std::int32_t> dimensions;
  std::string encoding_format = "float";
  std::optional<bool> normalize;  // absent: as the model wants
};

std::vector<FieldInfo> embedding_fields();
Result<EmbeddingRequest> parse_embedding_request(std::string_view body);

}  // namespace quire
