// The body of POST /v1/chat/completions; also what /tokenize takes of a chat.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/protocol/common_request.h"
#include "server/protocol/tools_request.h"

namespace quire {

// What a chat template gets.
struct ChatInput {
  std::string messages_json;            // checked; text parts joined, contents are strings
  std::vector<std::string> roles;       // of each message
  std::string documents_json;           // or empty
  std::string kwargs_json;              // or empty
  std::string chat_template;            // the request's own, or empty
  std::string last_role, last_content;  // of the last message: for echo
  ToolsInput tools;
  std::optional<bool> add_generation_prompt, continue_final_message;

  bool generation_prompt() const { return add_generation_prompt.value_or(!continues()); }
  bool continues() const { return continue_final_message.value_or(false); }
};

struct ChatRequest : CommonRequest {
  ChatInput chat;
  bool logprobs = false;
  std::int32_t top_logprobs = 0;
  std::string reasoning_effort;
  std::int32_t thinking_token_budget = -1;  // -1: no limit
  bool return_prompt_text = false;
  bool parallel_tool_calls = true, include_reasoning = true;
};

std::vector<FieldInfo> chat_fields();
Result<ChatRequest> parse_chat_request(std::string_view body);

// Reads the fields of ChatInput from any request's object. `messages` must be there.
Result<ChatInput> read_chat_input(const boost::json::object& object);
std::span<const Field<ChatInput>> chat_input_fields();

}  // namespace quire
