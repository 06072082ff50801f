// The body of POST /v1/completions.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/protocol/common_request.h"

namespace quire {

struct CompletionRequest : CommonRequest {
  using Prompt = std::variant<std::string, std::vector<TokenId>>;
  std::vector<Prompt> prompts;           // at least one
  std::optional<std::int32_t> logprobs;  // top count; -1: the whole vocabulary
};

std::vector<FieldInfo> completion_fields();

// Errors name the field, the value and the limit.
Result<CompletionRequest> parse_completion_request(std::string_view body);

}  // namespace quire
