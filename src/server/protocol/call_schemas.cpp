// See call_schemas.h.
#include "server/protocol/call_schemas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dialect/json_view.h"
#include "server/protocol/json_parse.h"

namespace quire {
namespace {

namespace json = boost::json;

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool has_reference(const json::value& schema) {
  if (const auto* array = schema.if_array())
    return std::any_of(array->begin(), array->end(), has_reference);
  const auto* object = schema.if_object();
  if (object == nullptr) return false;
  return std::any_of(object->begin(), object->end(), [](const auto& member) {
    return (member.key() == "$ref" && member.value().is_string()) || has_reference(member.value());
  });
}

std::string pointer_of(std::string_view key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

// A property alone; with the whole schema beside it where it refers to that.
json::value complete(const json::object& root, std::string_view key, const json::value& property) {
  if (!has_reference(property)) return property;
  json::value whole = root;
  move_references(whole, "#/$defs/parameters");
  return json::object{{"$ref", "#/$defs/parameters/properties/" + pointer_of(key)},
                      {"$defs", {{"parameters", std::move(whole)}}}};
}

Result<std::vector<std::string>> strings_of(const json::value& list) {
  std::vector<std::string> out;
  if (const auto* array = list.if_array()) {
    for (const auto& item : *array) {
      if (!item.is_string()) return make_error(ErrorCode::kUnsupported, "a choice that is no text");
      out.emplace_back(view(item.get_string()));
    }
  }
  return out;
}

// Alternatives outside all groups: anchors then belong to one of them alone.
bool has_open_alternatives(std::string_view pattern) {
  int depth = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == '|' && depth <= 0) {
      return true;
    }
  }
  return false;
}

// A schema's pattern is found anywhere in the text; this one matches all of it.
Result<std::string> whole_pattern(std::string_view pattern) {
  const bool from_start = pattern.starts_with('^');
  const bool to_end = pattern.ends_with('$') && !pattern.ends_with("\\$");
  if ((from_start || to_end) && has_open_alternatives(pattern))
    return make_error(ErrorCode::kUnsupported, "anchors inside alternatives of \"pattern\"");
  if (from_start) pattern.remove_prefix(1);
  if (to_end) pattern.remove_suffix(1);
  return fmt::format("{}(?:{}){}", from_start ? "" : "(?s:.)*", pattern, to_end ? "" : "(?s:.)*");
}

}  // namespace

json::value schema_of(const ToolFunction& function) {
  if (!function.parameters_json.empty()) return parse_checked(function.parameters_json);
  return json::object{
      {"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}};
}

json::value any_object_schema() {
  return json::object{{"type", "object"}, {"additionalProperties", true}};
}

void move_references(json::value& schema, const std::string& place) {
  if (auto* array = schema.if_array()) {
    for (auto& item : *array) move_references(item, place);
    return;
  }
  auto* object = schema.if_object();
  if (object == nullptr) return;
  for (auto& member : *object) {
    auto* text = member.value().if_string();
    if (member.key() == "$ref" && text != nullptr && text->starts_with('#')) {
      *text = place + std::string(text->subview(1));
    } else {
      move_references(member.value(), place);
    }
  }
}

Result<std::vector<Parameter>> parameters_of(const ToolFunction& function) {
  const json::value schema = schema_of(function);
  const json::object& root = schema.as_object();
  for (const auto& member : root) {
    if (is_one_of(view(member.key()),
                  {"type", "properties", "required", "additionalProperties", "$defs", "definitions",
                   "$schema", "$id", "title", "description", "default", "examples"}))
      continue;
    return make_error(ErrorCode::kUnsupported, "\"{}\" at its root", view(member.key()));
  }
  std::vector<std::string> required;
  if (const auto* names = root.if_contains("required")) {
    QUIRE_ASSIGN(required, strings_of(*names));
  }
  std::vector<Parameter> out;
  if (const auto* properties = root.if_contains("properties");
      properties && properties->is_object()) {
    for (const auto& property : properties->get_object()) {
      Parameter& parameter = out.emplace_back();
      parameter.name = std::string(view(property.key()));
      parameter.schema = complete(root, parameter.name, property.value());
      const auto found = std::find(required.begin(), required.end(), parameter.name);
      parameter.required = found != required.end();
      if (parameter.required) required.erase(found);
    }
  }
  if (!required.empty())
    return make_error(ErrorCode::kUnsupported,
                      "\"required\" names \"{}\", which it does not describe", required.front());
  return out;
}

Result<TextSchema> text_schema(const Parameter& parameter) {
  TextSchema out;
  const auto* schema = parameter.schema.if_object();
  if (schema == nullptr) return out;
  std::string least = "0", most;
  for (const auto& member : *schema) {
    const std::string_view key = view(member.key());
    const json::value& value = member.value();
    if (key == "enum") {
      QUIRE_ASSIGN(out.choices, strings_of(value));
    } else if (key == "const" && value.is_string()) {
      out.choices = {std::string(view(value.get_string()))};
    } else if (key == "minLength" && value.is_int64()) {
      least = std::to_string(value.get_int64());
    } else if (key == "maxLength" && value.is_int64()) {
      most = std::to_string(value.get_int64());
    } else if (key == "pattern" && value.is_string()) {
      QUIRE_ASSIGN(out.pattern, whole_pattern(view(value.get_string())));
    } else if (!is_one_of(key, {"type", "title", "description", "default", "examples"})) {
      return make_error(ErrorCode::kUnsupported, "\"{}\" of the parameter \"{}\"", key,
                        parameter.name);
    }
  }
  const bool bounded = least != "0" || !most.empty();
  if (bounded && (!out.pattern.empty() || !out.choices.empty()))
    return make_error(ErrorCode::kUnsupported, "two limits of the parameter \"{}\"",
                      parameter.name);
  if (bounded) out.pattern = fmt::format("(?s:.){{{},{}}}", least, most);
  return out;
}

}  // namespace quire
