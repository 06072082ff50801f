#include "server/protocol/chat_request.h"

#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>

#include "server/protocol/chat_messages.h"

namespace quire {
namespace {

namespace json = boost::json;
using R = ChatRequest;

constexpr std::string_view kMessagesSchema = R"({"type": "array", "minItems": 1, "items": {
    "type": "object", "required": ["role"], "properties": {
      "role": {"type": "string", "minLength": 1},
      "content": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {
        "anyOf": [{"type": "string"}, {"type": "object", "required": ["type"]}]}}]},
      "name": {"type": ["string", "null"]},
      "tool_call_id": {"type": ["string", "null"]}}}})";

constexpr std::string_view kToolsSchema = R"({"type": "array", "minItems": 1, "items": {
    "type": "object", "required": ["type", "function"], "properties": {
      "type": {"const": "function"},
      "function": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_.:/-]{1,64}$"},
        "description": {"type": ["string", "null"]},
        "parameters": {"type": ["object", "null"]},
        "strict": {"type": ["boolean", "null"]}}}}}})";
constexpr std::string_view kToolChoiceSchema = R"({"anyOf": [
    {"enum": ["none", "auto", "required"]},
    {"type": "object", "required": ["type", "function"], "properties": {
      "type": {"const": "function"},
      "function": {"type": "object", "required": ["name"]}}}]})";

Status read_messages(ChatInput& chat, const json::value& value, const Field<ChatInput>&) {
  QUIRE_ASSIGN(const auto messages, normalize_messages(value));
  const auto& last = messages.back().get_object();
  chat.last_role = json::value_to<std::string>(last.at("role"));
  chat.last_content = json::value_to<std::string>(last.at("content"));
  chat.messages_json = json::serialize(messages);
  for (const auto& message : messages)
    chat.roles.push_back(json::value_to<std::string>(message.at("role")));
  return {};
}
Status read_documents(ChatInput& chat, const json::value& value, const Field<ChatInput>& field) {
  if (!value.is_array())
    return field_error(field.name, "`documents` must be a list, but it is {}", json_kind(value));
  chat.documents_json = json::serialize(value);
  return {};
}
Status read_kwargs(ChatInput& chat, const json::value& value, const Field<ChatInput>& field) {
  QUIRE_TRY(read_object(value, field.name));
  chat.kwargs_json = json::serialize(value);
  return {};
}

Status read_chat_tools(ChatInput& chat, const json::value& value, const Field<ChatInput>&) {
  return read_tools(chat.tools, value);
}
Status read_chat_tool_choice(ChatInput& chat, const json::value& value, const Field<ChatInput>&) {
  return read_tool_choice(chat.tools, value);
}
// Templates get it by its name, and as enable_thinking, unless the request says those itself.
Status add_reasoning_effort(R& request) {
  if (request.reasoning_effort.empty()) return {};
  json::object kwargs;
  if (!request.chat.kwargs_json.empty()) {
    QUIRE_ASSIGN(kwargs, parse_object(request.chat.kwargs_json));
  }
  kwargs.emplace("reasoning_effort", request.reasoning_effort);
  kwargs.emplace("enable_thinking", request.reasoning_effort != "none");
  request.chat.kwargs_json = json::serialize(kwargs);
  return {};
}
Status read_modalities(R&, const json::value& value, const Field<R>& field) {
  const auto* array = value.if_array();
  if (array != nullptr && array->size() == 1 && array->front() == "text") return {};
  return field_error(field.name,
                     "`modalities` must be [\"text\"]: other answers are not supported");
}
// The newer name wins over max_tokens: read after it.
Status read_max_completion_tokens(R& request, const json::value& value, const Field<R>& field) {
  QUIRE_ASSIGN(const auto number, read_integer(value, field.name, 1, kMaxInt32));
  request.max_tokens = static_cast<std::int32_t>(number);
  return {};
}

std::span<const Field<R>> own_fields() {
  static constexpr std::array kTable{
      bool_field<&R::logprobs>("logprobs")
          .is(kOpenAi | kVllm, "false", "Log-probabilities of the answer's tokens"),
      integer_field<&R::top_logprobs>("top_logprobs", -1, kMaxInt32)
          .is(kOpenAi | kVllm, "0", "With this many of the likeliest; -1: all"),
      custom_field<R>("max_completion_tokens",
                      R"({"type": "integer", "minimum": 1, "maximum": 2147483647})",
                      &read_max_completion_tokens)
          .is(kOpenAi | kVllm, "null", "Newer name of `max_tokens`, which it overrides"),
      choice_field<&R::reasoning_effort>("reasoning_effort",
                                         "none|minimal|low|medium|high|xhigh|max")
          .is(kOpenAi | kVllm, "null", "For the template, also as `enable_thinking`"),
      integer_field<&R::thinking_token_budget>("thinking_token_budget", -1, kMaxInt32)
          .is(kVllm, "-1", "Tokens of thinking at most, then its end is drawn; -1: no limit"),
      bool_field<&R::return_prompt_text>("return_prompt_text")
          .is(kVllm, "false", "Show the conversation as the template has written it"),
      bool_field<&R::parallel_tool_calls>("parallel_tool_calls")
          .is(kOpenAi | kVllm, "true", "Several calls in one answer"),
      bool_field<&R::include_reasoning>("include_reasoning")
          .is(kVllm, "true", "Show the reasoning"),
      unsupported_field<R>("functions").is(kOpenAi, "null", "Older name of `tools`"),
      unsupported_field<R>("function_call").is(kOpenAi, "null", "Older name of `tool_choice`"),
      custom_field<R>("modalities", R"({"const": ["text"]})", &read_modalities)
          .is(kOpenAi, R"(["text"])", "Answers are text"),
      ignored_field<R>("verbosity", FieldKind::kChoice, "medium")
          .is(kOpenAi, "\"medium\"", "Length of answers"),
      ignored_field<R>("prediction", FieldKind::kObject)
          .is(kOpenAi, "null", "Accepted; a hint that would change the speed alone"),
      unsupported_field<R>("store").is(kOpenAi, "false", "Nothing is stored"),
      unsupported_field<R>("audio").is(kOpenAi, "null", "Spoken answers"),
      unsupported_field<R>("web_search_options").is(kOpenAi, "null", "Search"),
      unsupported_field<R>("mm_processor_kwargs").is(kVllm, "null", "Of images and sound"),
      unsupported_field<R>("media_io_kwargs").is(kVllm, "null", "Of images and sound"),
      unsupported_field<R>("return_mm_kwargs").is(kVllm, "false", "Of images and sound"),
  };
  return kTable;
}

}  // namespace

std::span<const Field<ChatInput>> chat_input_fields() {
  static constexpr std::array kTable{
      custom_field<ChatInput>("messages", kMessagesSchema, &read_messages)
          .must()
          .is(kOpenAi | kVllm | kLlamaCpp, "", "The conversation; contents are text"),
      custom_field<ChatInput>("documents", R"({"type": "array"})", &read_documents)
          .is(kVllm, "null", "For templates that quote documents"),
      custom_field<ChatInput>("chat_template_kwargs", R"({"type": "object"})", &read_kwargs)
          .is(kVllm | kLlamaCpp, "null", "Variables of the template"),
      custom_field<ChatInput>("tools", kToolsSchema, &read_chat_tools)
          .is(kOpenAi | kVllm | kLlamaCpp, "null", "Functions that may be called"),
      custom_field<ChatInput>("tool_choice", kToolChoiceSchema, &read_chat_tool_choice)
          .is(kOpenAi | kVllm | kLlamaCpp, "null",
              "Whether they must be; absent: auto with `tools`"),
      string_field<&ChatInput::chat_template>("chat_template")
          .is(kVllm, "null", "A template; only with --trust-request-chat-template"),
      bool_field<&ChatInput::add_generation_prompt>("add_generation_prompt")
          .is(kVllm | kLlamaCpp, "true", "Open the answer's turn"),
      bool_field<&ChatInput::continue_final_message>("continue_final_message")
          .is(kVllm, "false", "Go on with the last message"),
  };
  return kTable;
}

std::vector<FieldInfo> chat_fields() {
  return list_fields(chat_input_fields(), own_fields(), common_fields());
}

Result<ChatInput> read_chat_input(const json::object& object) {
  ChatInput chat;
  QUIRE_TRY(read_fields<ChatInput>(object, chat_input_fields(), chat));
  QUIRE_TRY(check_tools(chat.tools));
  if (chat.add_generation_prompt.value_or(false) && chat.continues()) {
    return field_error(
        "continue_final_message",
        "`continue_final_message` and `add_generation_prompt` must not both be true");
  }
  return chat;
}

Result<ChatRequest> parse_chat_request(std::string_view body) {
  QUIRE_ASSIGN(const auto object, parse_object(body));
  ChatRequest request;
  QUIRE_TRY(read_fields<CommonRequest>(object, common_fields(), request));
  if (request.max_tokens == 0)
    return field_error("max_tokens", "`max_tokens` must be at least 1, but it is 0");
  QUIRE_TRY(read_fields<R>(object, own_fields(), request));
  QUIRE_ASSIGN(request.chat, read_chat_input(object));
  QUIRE_TRY(add_reasoning_effort(request));
  note_unknown_fields(object, common_fields(), own_fields(), chat_input_fields());
  QUIRE_TRY(check_common(request));
  if (request.top_logprobs != 0 && !request.logprobs)
    return field_error("top_logprobs", "`top_logprobs` needs `logprobs` = true");
  if (!request.logprob_token_ids.empty() && !request.logprobs)
    return field_error("logprob_token_ids", "`logprob_token_ids` needs `logprobs` = true");
  return request;
}

}  // namespace quire
