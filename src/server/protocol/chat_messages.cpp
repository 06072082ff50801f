#include "server/protocol/chat_messages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <iterator>

#include "dialect/json_view.h"
#include "server/protocol/field_table.h"
#include "server/protocol/json_parse.h"

namespace quire {
namespace {

namespace json = boost::json;

Result<std::string> text_of_part(const json::value& part, const std::string& where) {
  if (const auto* text = part.if_string()) return std::string(view(*text));
  const auto* object = part.if_object();
  const auto* type = object == nullptr ? nullptr : object->if_contains("type");
  if (type == nullptr || !type->is_string()) {
    return field_error(where, "`{}` must be an object with a \"type\"", where);
  }
  const std::string_view kind = view(type->get_string());
  const bool is_text = kind == "text" || kind == "input_text" || kind == "output_text";
  if (!is_text && kind != "refusal") {
    return field_error(
        where, "`{}` is a part of type \"{}\", but this model takes text only: use \"text\"", where,
        kind);
  }
  const auto* text = object->if_contains(is_text ? "text" : "refusal");
  if (text == nullptr || !text->is_string()) {
    return field_error(where, "`{}` of type \"{}\" needs a string \"{}\"", where, kind,
                       is_text ? "text" : "refusal");
  }
  return std::string(view(text->get_string()));
}

Result<std::string> text_of_content(const json::value& content, const std::string& where) {
  if (const auto* text = content.if_string()) return std::string(view(*text));
  const auto* parts = content.if_array();
  if (parts == nullptr) {
    return field_error(where, "`{}` must be a string or a list of parts, but it is {}", where,
                       json_kind(content));
  }
  std::string out;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    QUIRE_ASSIGN(const auto text, text_of_part((*parts)[i], fmt::format("{}[{}]", where, i)));
    if (i > 0) out += '\n';
    out += text;
  }
  return out;
}

// Clients send arguments as JSON text; templates print them as objects.
Status open_tool_calls(json::value& calls, const std::string& where) {
  auto* array = calls.if_array();
  if (array == nullptr)
    return field_error(where, "`{}` must be a list, but it is {}", where, json_kind(calls));
  for (std::size_t i = 0; i < array->size(); ++i) {
    auto* call = (*array)[i].if_object();
    auto* function = call == nullptr ? nullptr : call->if_contains("function");
    if (function == nullptr || !function->is_object()) {
      return field_error(where, "`{}[{}]` must be an object with a \"function\"", where, i);
    }
    const auto* name = function->get_object().if_contains("name");
    if (name == nullptr || !name->is_string() || name->get_string().empty()) {
      const std::string place = fmt::format("{}[{}].function.name", where, i);
      return field_error(place, "`{}` must be the name of the function", place);
    }
    auto* arguments = function->get_object().if_contains("arguments");
    if (arguments == nullptr || !arguments->is_string()) continue;
    const std::string text(view(arguments->get_string()));
    auto parsed = parse_json(text.empty() ? "{}" : text);
    if (!parsed || !parsed->is_object()) {
      return field_error(where, "`{}[{}].function.arguments` must be the text of a JSON object",
                         where, i);
    }
    *arguments = std::move(*parsed);
  }
  return {};
}

// What no template would show.
Status refuse_unread(const json::object& message, const std::string& where) {
  const auto* call = message.if_contains("function_call");
  if (call != nullptr && !call->is_null()) {
    return field_error(where + ".function_call",
                       "`{}.function_call` is an older form that is not read: give `tool_calls`",
                       where);
  }
  const auto* audio = message.if_contains("audio");
  if (audio != nullptr && !audio->is_null()) {
    return field_error(where + ".audio", "`{}.audio` is not supported: give its text as `content`",
                       where);
  }
  return {};
}

Status normalize_message(json::value& value, const std::string& where) {
  auto* message = value.if_object();
  if (message == nullptr)
    return field_error(where, "`{}` must be an object, but it is {}", where, json_kind(value));
  const auto* role = message->if_contains("role");
  if (role == nullptr || !role->is_string() || role->get_string().empty()) {
    return field_error(where + ".role", "`{}` needs a \"role\" such as \"user\"", where);
  }
  const bool assistant = role->get_string() == "assistant";
  for (const char* key : {"name", "tool_call_id"}) {
    const auto* text = message->if_contains(key);
    if (text == nullptr || text->is_string()) continue;
    if (!text->is_null())
      return field_error(where, "`{}.{}` must be a string, but it is {}", where, key,
                         json_kind(*text));
    message->erase(key);
  }
  if (auto* calls = message->if_contains("tool_calls")) {
    if (calls->is_null()) {
      message->erase("tool_calls");
    } else {
      QUIRE_TRY(open_tool_calls(*calls, where + ".tool_calls"));
    }
  }
  QUIRE_TRY(refuse_unread(*message, where));
  auto& content = (*message)["content"];
  // What the assistant said in place of an answer.
  if (auto* refusal = message->if_contains("refusal");
      content.is_null() && assistant && refusal != nullptr && refusal->is_string())
    content = *refusal;
  if (content.is_null()) {
    if (!assistant) return field_error(where, "`{}` needs a \"content\"", where);
    content = "";
    return {};
  }
  QUIRE_ASSIGN(const auto text, text_of_content(content, where + ".content"));
  content = json::string(text);
  return {};
}

}  // namespace

Result<json::array> normalize_messages(const json::value& messages) {
  const auto* array = messages.if_array();
  if (array == nullptr) {
    return field_error("messages", "`messages` must be a list of messages, but it is {}",
                       json_kind(messages));
  }
  if (array->empty()) return field_error("messages", "`messages` is empty: give at least one");
  json::array out = *array;
  for (std::size_t i = 0; i < out.size(); ++i)
    QUIRE_TRY(normalize_message(out[i], fmt::format("messages[{}]", i)));
  return out;
}

namespace {
// Whether what stands around a text in a template makes it the name of a member: message['role'],
// message.get('role'), 'role' in message.
bool names_member(std::string_view before, std::string_view after) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto trim_end = [&](std::string_view text) {
    return text.substr(0, text.find_last_not_of(kBlank) + 1);
  };
  const std::string_view behind =
      after.substr(std::min(after.size(), after.find_first_not_of(kBlank)));
  const std::string_view word =
      behind.starts_with("not") && behind.size() > 3 && kBlank.find(behind[3]) != kBlank.npos
          ? behind.substr(std::min(behind.size(), behind.find_first_not_of(kBlank, 3)))
          : behind;
  if (word.starts_with("in") && word.size() > 2 && kBlank.find(word[2]) != kBlank.npos) {
    // In a list of texts it may well be a role.
    const auto list = word.find_first_not_of(kBlank, 2);
    return list != word.npos && word[list] != '[' && word[list] != '(';
  }
  before = trim_end(before);
  if (before.ends_with('(')) return trim_end(before.substr(0, before.size() - 1)).ends_with(".get");
  if (before.size() < 2 || before.back() != '[') return false;
  const char last = before[before.size() - 2];  // a blank as in: role in ['a', 'b']
  return std::isalnum(static_cast<unsigned char>(last)) != 0 || last == '_' || last == ']' ||
         last == ')';
}

// Whether the template has the name as a text: 'ipython' or "ipython", but no member's.
bool speaks_of(std::string_view source, std::string_view name) {
  for (const char quote : {'\'', '"'}) {
    const std::string text = fmt::format("{}{}{}", quote, name, quote);
    for (auto at = source.find(text); at != source.npos; at = source.find(text, at + 1)) {
      if (!names_member(source.substr(0, at), source.substr(at + text.size()))) return true;
    }
  }
  return false;
}
}  // namespace

Status check_roles(const std::vector<std::string>& roles, std::string_view template_source) {
  static constexpr std::string_view kRoles[] = {"system",    "developer", "user",
                                                "assistant", "tool",      "function"};
  for (std::size_t i = 0; i < roles.size(); ++i) {
    const std::string& role = roles[i];
    if (std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles)) continue;
    if (speaks_of(template_source, role)) continue;
    const std::string where = fmt::format("messages[{}].role", i);
    return field_error(where,
                       "`{}` must be one of {}, or a role that the model's chat template names, "
                       "but it is {}",
                       where, fmt::join(kRoles, ", "),
                       json::serialize(json::value(json::string(role.substr(0, 64)))));
  }
  return {};
}

}  // namespace quire
