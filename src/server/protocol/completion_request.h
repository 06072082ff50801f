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

inline constexpr std::string_view kPromptSchema = R"({"anyOf": [
    {"type": "string"},
    {"type": "array", "minItems": 1, "items": {"type": "string"}},
    {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}},
    {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1,
      "items": {"type": "integer", "minimum": 0, "maximum": 2147483647}}}]})";
// A string, token ids, or a list of either.
Status read_prompts(const boost::json::value& value, std::string_view name,
                    std::vector<CompletionRequest::Prompt>* out);

std::vector<FieldInfo> completion_fields();

// Errors name the field, the value and the limit.
Result<CompletionRequest> parse_completion_request(std::string_view body);

}  // namespace quire
