#include "server/protocol/completion_request.h"

#include <array>

namespace quire {
namespace {

namespace json = boost::json;
using R = CompletionRequest;

constexpr double kMaxInt32 = 2147483647;

Status read_ids(R& request, const json::value& value, std::string_view name) {
  QUIRE_ASSIGN(auto ids, read_integers(value, name, 0, kMaxInt32));
  if (ids.empty()) return field_error("prompt", "`{}` has no tokens", name);
  request.prompts.emplace_back(std::move(ids));
  return {};
}

// A string, token ids, or a list of either.
Status read_prompt(R& request, const json::value& value, const Field<R>& field) {
  if (const auto* text = value.if_string()) {
    request.prompts.emplace_back(std::string(text->data(), text->size()));
    return {};
  }
  const auto* array = value.if_array();
  if (array == nullptr) {
    return field_error(
        field.name,
        "`prompt` must be a string, a list of strings, token ids or a list of those, but it is {}",
        json_kind(value));
  }
  if (array->empty()) return field_error(field.name, "`prompt` is an empty list");
  if (array->front().is_number()) return read_ids(request, value, field.name);
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto& item = (*array)[i];
    if (item.kind() != array->front().kind() || (!item.is_string() && !item.is_array())) {
      return field_error(
          field.name, "`prompt[{}]` is {}: a list holds strings only, or lists of token ids only",
          i, json_kind(item));
    }
    if (const auto* text = item.if_string()) {
      request.prompts.emplace_back(std::string(text->data(), text->size()));
    } else {
      QUIRE_TRY(read_ids(request, item, fmt::format("prompt[{}]", i)));
    }
  }
  return {};
}

}  // namespace

Result<CompletionRequest> parse_completion_request(std::string_view body) {
  static const std::array kTable{
      custom_field<R>("prompt", &read_prompt),
      integer_field<&R::logprobs>("logprobs", 0, kMaxInt32),
      unsupported_field<R>("suffix"),
  };
  static constexpr std::array<Field<R>, 3> kIgnored{{{"user"}, {"metadata"}, {"service_tier"}}};
  QUIRE_ASSIGN(const auto object, parse_object(body));
  CompletionRequest request;
  QUIRE_TRY(read_fields<CommonRequest>(object, common_fields(), request));
  QUIRE_TRY(read_fields<R>(object, kTable, request));
  note_unknown_fields(object, common_fields(), kTable, kIgnored);
  if (request.prompts.empty()) return field_error("prompt", "`prompt` is missing");
  QUIRE_TRY(check_common(request));
  if (request.max_tokens == 0 && !request.echo) {
    return field_error("max_tokens",
                       "`max_tokens` must be at least 1 (0 only with `echo`), but it is 0");
  }
  return request;
}

}  // namespace quire
