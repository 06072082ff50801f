// POST /tokenize and /detokenize, in vLLM's shape.
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "server/prepare.h"
#include "server/protocol/field_table.h"

namespace quire {
namespace {

namespace json = boost::json;

struct TokenizeRequest {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<bool> add_special_tokens;
  bool return_token_strs = false;
};
using R = TokenizeRequest;

std::span<const Field<R>> tokenize_table() {
  static constexpr std::array kTable{
      string_field<&R::model>("model").is(kVllm, "", "Absent: the first name served"),
      string_field<&R::prompt>("prompt").is(kVllm, "", "A text; or give `messages`"),
      bool_field<&R::add_special_tokens>("add_special_tokens")
          .is(kVllm, "", "Begin with the model's start token; absent: true, for messages false"),
      bool_field<&R::return_token_strs>("return_token_strs")
          .is(kVllm, "false", "Show the tokens as text, too"),
  };
  return kTable;
}

struct DetokenizeRequest {
  std::string model;
  std::vector<std::int32_t> tokens;
};
using D = DetokenizeRequest;

std::span<const Field<D>> detokenize_table() {
  static constexpr std::array kTable{
      string_field<&D::model>("model").is(kVllm, "", "Absent: the first name served"),
      integers_field<&D::tokens>("tokens", 0, kMaxInt32).must().is(kVllm | kLlamaCpp, "", "Ids"),
  };
  return kTable;
}

// The fields of a conversation, where a prompt is what counts: a wrong one is still an error.
Status check_chat_fields(const json::object& object) {
  ChatInput unused;
  for (const auto& field : chat_input_fields()) {
    const auto* value = object.if_contains(json::string_view(field.name.data(), field.name.size()));
    if (value != nullptr && !value->is_null()) QUIRE_TRY(field.read(unused, *value, field));
  }
  return {};
}

}  // namespace

std::vector<FieldInfo> tokenize_fields() {
  auto chat = list_fields(chat_input_fields());
  for (FieldInfo& field : chat) field.required = false;  // a prompt will do
  auto out = list_fields(tokenize_table());
  out.insert(out.end(), chat.begin(), chat.end());
  return out;
}
std::vector<FieldInfo> detokenize_fields() { return list_fields(detokenize_table()); }

Result<std::string> tokenize_answer(const ProtocolContext& context, std::string_view body) {
  QUIRE_ASSIGN(const auto object, parse_object(body));
  R request;
  QUIRE_TRY(read_fields<R>(object, tokenize_table(), request));
  QUIRE_TRY(check_model(context, request.model));
  std::string text;
  bool add_special_tokens = true;
  const auto* messages = object.if_contains("messages");
  const bool has_messages = messages != nullptr && !messages->is_null();
  if (request.prompt && has_messages)
    return field_error("prompt", "give `prompt` or `messages`, not both");
  if (request.prompt) {
    QUIRE_TRY(check_chat_fields(object));
    text = std::move(*request.prompt);
  } else if (has_messages) {
    QUIRE_ASSIGN(const auto chat, read_chat_input(object));
    QUIRE_ASSIGN(text, render_chat(context, chat));
    add_special_tokens = false;
  } else {
    return field_error("prompt", "give `prompt` or `messages`");
  }
  QUIRE_ASSIGN(const auto ids,
               context.text->encode(text, request.add_special_tokens.value_or(add_special_tokens)));
  json::object out;
  out["count"] = static_cast<std::int64_t>(ids.size());
  out["max_model_len"] = context.options->max_model_len;
  out["tokens"] = json::array(ids.begin(), ids.end());
  json::value strings(nullptr);
  if (request.return_token_strs) {
    json::array& list = strings.emplace_array();
    for (const TokenId id : ids)
      list.emplace_back(replace_invalid_utf8(context.text->token_text(id)));
  }
  out["token_strs"] = std::move(strings);
  return json::serialize(out);
}

Result<std::string> detokenize_answer(const ProtocolContext& context, std::string_view body) {
  QUIRE_ASSIGN(const auto object, parse_object(body));
  D request;
  QUIRE_TRY(read_fields<D>(object, detokenize_table(), request));
  QUIRE_TRY(check_model(context, request.model));
  for (const TokenId id : request.tokens) {
    if (static_cast<std::size_t>(id) >= context.text->vocab_size()) {
      return field_error("tokens",
                         "`tokens` has the id {}, but this model's vocabulary has {} tokens", id,
                         context.text->vocab_size());
    }
  }
  json::object out;
  out["prompt"] = context.text->decode(request.tokens, false);
  return json::serialize(out);
}

}  // namespace quire
