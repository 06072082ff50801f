#include "server/protocol/chat_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>

#include "server/protocol/chat_messages.h"

namespace quire {
namespace {

namespace json = boost::json;
using R = ChatRequest;

constexpr double kMaxInt32 = 2147483647;

Status read_messages(ChatInput& chat, const json::value& value, const Field<ChatInput>&) {
  QUIRE_ASSIGN(const auto messages, normalize_messages(value));
  const auto& last = messages.back().get_object();
  chat.last_role = json::value_to<std::string>(last.at("role"));
  chat.last_content = json::value_to<std::string>(last.at("content"));
  chat.messages_json = json::serialize(messages);
  return {};
}
Status read_documents(ChatInput& chat, const json::value& value, const Field<ChatInput>& field) {
  if (!value.is_array())
    return field_error(field.name, "`documents` must be a list, but it is {}", json_kind(value));
  chat.documents_json = json::serialize(value);
  return {};
}
Status read_kwargs(ChatInput& chat, const json::value& value, const Field<ChatInput>& field) {
  if (!value.is_object()) {
    return field_error(field.name, "`chat_template_kwargs` must be an object, but it is {}",
                       json_kind(value));
  }
  chat.kwargs_json = json::serialize(value);
  return {};
}

// "none" and "auto" ask for nothing while no tools are given.
Status read_tool_choice(R&, const json::value& value, const Field<R>& field) {
  if (value.is_string() && (value.get_string() == "none" || value.get_string() == "auto"))
    return {};
  return check_neutral(value, field.name, {});
}
// Templates get it by its name, and as enable_thinking, unless the request says those itself.
Status read_reasoning_effort(R& request, const json::value& value, const Field<R>& field) {
  QUIRE_ASSIGN(const auto effort, read_string(value, field.name));
  static constexpr std::array<std::string_view, 7> kEfforts{"none", "minimal", "low", "medium",
                                                            "high", "xhigh",   "max"};
  if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end()) {
    return field_error(field.name, "`reasoning_effort` must be one of {}, but it is \"{}\"",
                       fmt::join(kEfforts, ", "), effort);
  }
  request.reasoning_effort = effort;
  return {};
}
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

}  // namespace

std::span<const Field<ChatInput>> chat_input_fields() {
  static const std::array kTable{
      custom_field<ChatInput>("messages", &read_messages),
      custom_field<ChatInput>("documents", &read_documents),
      custom_field<ChatInput>("chat_template_kwargs", &read_kwargs),
      string_field<&ChatInput::chat_template>("chat_template"),
      bool_field<&ChatInput::add_generation_prompt>("add_generation_prompt"),
      bool_field<&ChatInput::continue_final_message>("continue_final_message"),
  };
  return kTable;
}

Result<ChatInput> read_chat_input(const json::object& object) {
  ChatInput chat;
  QUIRE_TRY(read_fields<ChatInput>(object, chat_input_fields(), chat));
  if (chat.messages_json.empty()) return field_error("messages", "`messages` is missing");
  if (chat.add_generation_prompt.value_or(false) && chat.continues()) {
    return field_error(
        "continue_final_message",
        "`continue_final_message` and `add_generation_prompt` must not both be true");
  }
  return chat;
}

Result<ChatRequest> parse_chat_request(std::string_view body) {
  static const std::array kTable{
      bool_field<&R::logprobs>("logprobs"),
      integer_field<&R::top_logprobs>("top_logprobs", 0, kMaxInt32),
      custom_field<R>("max_completion_tokens", &read_max_completion_tokens),
      custom_field<R>("tool_choice", &read_tool_choice),
      custom_field<R>("modalities", &read_modalities),
      custom_field<R>("reasoning_effort", &read_reasoning_effort),
      unsupported_field<R>("tools"),
      unsupported_field<R>("functions"),
      unsupported_field<R>("function_call"),
      unsupported_field<R>("audio"),
      unsupported_field<R>("web_search_options"),
      unsupported_field<R>("mm_processor_kwargs"),
      unsupported_field<R>("media_io_kwargs"),
  };
  static constexpr std::array<Field<R>, 6> kIgnored{{{"user"},
                                                     {"metadata"},
                                                     {"service_tier"},
                                                     {"store"},
                                                     {"parallel_tool_calls"},
                                                     {"include_reasoning"}}};
  QUIRE_ASSIGN(const auto object, parse_object(body));
  ChatRequest request;
  QUIRE_TRY(read_fields<CommonRequest>(object, common_fields(), request));
  if (request.max_tokens == 0)
    return field_error("max_tokens", "`max_tokens` must be at least 1, but it is 0");
  QUIRE_TRY(read_fields<R>(object, kTable, request));
  QUIRE_ASSIGN(request.chat, read_chat_input(object));
  QUIRE_TRY(add_reasoning_effort(request));
  note_unknown_fields(object, common_fields(), kTable, chat_input_fields(), kIgnored);
  QUIRE_TRY(check_common(request));
  if (request.top_logprobs > 0 && !request.logprobs) {
    return field_error("top_logprobs", "`top_logprobs` needs `logprobs` = true");
  }
  return request;
}

}  // namespace quire
