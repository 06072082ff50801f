#include "server/tools_in_words.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "server/protocol/json_parse.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::string_view kBefore =
    "You can call functions. Each line here describes one as JSON:\n";
constexpr std::string_view kAfter =
    "\nTo call one, write a line of this form, with the arguments that its description asks for, "
    "and nothing after your last call:\n"
    "<tool_call>{\"name\": \"FUNCTION\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}</tool_call>\n"
    "The result comes back between <tool_response> and </tool_response>. When no function helps, "
    "answer in plain text.";

std::string description(const json::array& tools) {
  std::string out(kBefore);
  for (const auto& tool : tools) {
    out += json::serialize(tool.at("function"));
    out += '\n';
  }
  out += kAfter;
  return out;
}

std::string content_of(const json::object& message) {
  const auto* content = message.if_contains("content");
  return content != nullptr && content->is_string() ? std::string(content->get_string())
                                                    : std::string();
}

void write_calls(json::object& message) {
  const auto* calls = message.if_contains("tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  std::string text = content_of(message);
  for (const auto& call : calls->get_array()) {
    const auto& function = call.at("function").as_object();
    json::object out;
    for (const char* key : {"name", "arguments"})
      if (const auto* value = function.if_contains(key)) out[key] = *value;
    if (!text.empty()) text += '\n';
    text += "<tool_call>" + json::serialize(out) + "</tool_call>";
  }
  message["content"] = json::string(text);
  message.erase("tool_calls");
}

}  // namespace

Result<std::string> tools_in_messages(const std::string& messages_json,
                                      const std::string& tools_json) {
  QUIRE_ASSIGN(auto value, parse_json(messages_json));
  json::array& messages = value.as_array();
  for (auto& item : messages) {
    json::object& message = item.as_object();
    write_calls(message);
    if (message.at("role").as_string() == "tool") {
      message["role"] = "user";
      message["content"] =
          json::string("<tool_response>" + content_of(message) + "</tool_response>");
    }
  }
  if (!tools_json.empty()) {
    QUIRE_ASSIGN(const auto tools, parse_json(tools_json));
    const std::string words = description(tools.as_array());
    json::object& first = messages.front().as_object();
    const auto role = first.at("role").as_string();
    if (role == "system" || role == "developer") {
      first["content"] = json::string(content_of(first) + "\n\n" + words);
    } else {
      messages.insert(messages.begin(),
                      json::object{{"role", "system"}, {"content", json::string(words)}});
    }
  }
  return json::serialize(messages);
}

}  // namespace quire
