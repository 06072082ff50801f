#include "server/protocol/completion_request.h"

#include <array>

namespace quire {
namespace {

namespace json = boost::json;
using R = CompletionRequest;

Status read_ids(const json::value& value, std::string_view name,
                std::vector<CompletionRequest::Prompt>* out) {
  QUIRE_ASSIGN(auto ids, read_integers(value, {name, FieldKind::kIntegers, 0, kMaxInt32}));
  if (ids.empty()) return field_error(name, "`{}` has no tokens", name);
  out->emplace_back(std::move(ids));
  return {};
}

Status read_prompt(R& request, const json::value& value, const Field<R>& field) {
  return read_prompts(value, field.name, &request.prompts);
}

Status read_thinking_budget(R&, const json::value& value, const Field<R>& field) {
  QUIRE_ASSIGN(const auto budget, read_integer(value, field.name, -1, kMaxInt32));
  if (budget == -1) return {};
  return field_error(field.name, "`thinking_token_budget` is for chats: use /v1/chat/completions");
}

std::span<const Field<R>> own_fields() {
  static constexpr std::array kTable{
      custom_field<R>("prompt", kPromptSchema, &read_prompt)
          .must()
          .is(kOpenAi | kVllm | kLlamaCpp, "", "A text, token ids, or a list of either"),
      custom_field<R>("thinking_token_budget", R"({"const": -1})", &read_thinking_budget)
          .is(kVllm, "-1", "In chats alone"),
      integer_field<&R::logprobs>("logprobs", -1, kMaxInt32)
          .is(kOpenAi | kVllm, "null",
              "Log-probabilities, with this many of the likeliest; -1: all"),
      unsupported_field<R>("suffix").is(kOpenAi, "null", "Text behind what is inserted"),
  };
  return kTable;
}

}  // namespace

Status read_prompts(const json::value& value, std::string_view name,
                    std::vector<CompletionRequest::Prompt>* out) {
  if (const auto* text = value.if_string()) {
    out->emplace_back(std::string(text->data(), text->size()));
    return {};
  }
  const auto* array = value.if_array();
  if (array == nullptr) {
    return field_error(
        name,
        "`{}` must be a string, a list of strings, token ids or a list of those, but it is {}",
        name, json_kind(value));
  }
  if (array->empty()) return field_error(name, "`{}` is an empty list", name);
  if (array->front().is_number()) return read_ids(value, name, out);
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto& item = (*array)[i];
    if (item.kind() != array->front().kind() || (!item.is_string() && !item.is_array())) {
      return field_error(name,
                         "`{}[{}]` is {}: a list holds strings only, or lists of token ids only",
                         name, i, json_kind(item));
    }
    if (const auto* text = item.if_string()) {
      out->emplace_back(std::string(text->data(), text->size()));
    } else {
      QUIRE_TRY(read_ids(item, fmt::format("{}[{}]", name, i), out));
    }
  }
  return {};
}

std::vector<FieldInfo> completion_fields() { return list_fields(own_fields(), common_fields()); }

Result<CompletionRequest> parse_completion_request(std::string_view body) {
  QUIRE_ASSIGN(const auto object, parse_object(body));
  CompletionRequest request;
  QUIRE_TRY(read_fields<CommonRequest>(object, common_fields(), request));
  QUIRE_TRY(read_fields<R>(object, own_fields(), request));
  note_unknown_fields(object, common_fields(), own_fields());
  QUIRE_TRY(check_common(request));
  if (request.max_tokens == 0 && !request.echo) {
    return field_error("max_tokens",
                       "`max_tokens` must be at least 1 (0 only with `echo`), but it is 0");
  }
  if (!request.logprob_token_ids.empty() && !request.logprobs)
    return field_error("logprob_token_ids", "`logprob_token_ids` needs `logprobs`");
  return request;
}

}  // namespace quire
