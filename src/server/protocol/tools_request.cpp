#include "server/protocol/tools_request.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "dialect/json_view.h"
#include "dialect/tool_parser.h"
#include "server/protocol/field_table.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxNameBytes = 64;  // OpenAI's
constexpr std::size_t kMaxTools = 1024;

const json::value* member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

// An object of "type": "function" with a "function"; returns that.
Result<const json::object*> function_of(const json::value& value, const std::string& where) {
  const auto* object = value.if_object();
  if (object == nullptr)
    return field_error(where, "`{}` must be an object, but it is {}", where, json_kind(value));
  const auto* type = member(*object, "type");
  if (type == nullptr || !type->is_string() || type->get_string() != "function") {
    const bool named = type != nullptr && type->is_string();
    return field_error(where + ".type", "`{}.type` must be \"function\", but it is {}", where,
                       named ? json::serialize(*type) : "missing");
  }
  const auto* function = member(*object, "function");
  if (function == nullptr || !function->is_object()) {
    return field_error(where + ".function", "`{}` needs an object \"function\" with a \"name\"",
                       where);
  }
  return &function->get_object();
}

Result<std::string> name_of(const json::object& function, const std::string& where) {
  const auto* name = member(function, "name");
  const std::string path = where + ".function.name";
  if (name == nullptr) return field_error(path, "`{}` is missing", path);
  QUIRE_ASSIGN(auto text, read_string(*name, path));
  if (text.size() > kMaxNameBytes) {
    return field_error(path, "`{}` may have at most {} bytes, but it has {}", path, kMaxNameBytes,
                       text.size());
  }
  if (!is_function_name(text)) {
    return field_error(path, "`{}` must be letters, digits and _ - . : / only, but it is {}", path,
                       json::serialize(json::value(json::string(text))));
  }
  return text;
}

// Arguments are an object.
Status check_root(const json::object& schema, const std::string& where) {
  const auto* type = schema.if_contains("type");
  const auto is_object = [](const json::value& name) { return name == "object"; };
  if (type == nullptr || is_object(*type)) return {};
  if (const auto* names = type->if_array();
      names != nullptr && std::any_of(names->begin(), names->end(), is_object)) {
    return {};
  }
  return field_error(where + ".type",
                     "`{}.type` must be \"object\", since arguments are one, but it is {}", where,
                     json::serialize(*type));
}

Result<ToolFunction> read_function(const json::value& value, const std::string& where) {
  QUIRE_ASSIGN(const auto* function, function_of(value, where));
  ToolFunction out;
  QUIRE_ASSIGN(out.name, name_of(*function, where));
  const std::string path = where + ".function";
  if (const auto* description = member(*function, "description"))
    QUIRE_TRY(read_string(*description, path + ".description"));
  if (const auto* parameters = member(*function, "parameters")) {
    if (!parameters->is_object()) {
      return field_error(path + ".parameters",
                         "`{}.parameters` must be a JSON Schema (an object), but it is {}", path,
                         json_kind(*parameters));
    }
    QUIRE_TRY(check_root(parameters->get_object(), path + ".parameters"));
    out.parameters_json = json::serialize(*parameters);
  }
  if (const auto* strict = member(*function, "strict")) {
    QUIRE_ASSIGN(out.strict, read_bool(*strict, path + ".strict"));
  }
  return out;
}

bool has(const ToolsInput& tools, std::string_view name) {
  return std::any_of(tools.functions.begin(), tools.functions.end(),
                     [&](const ToolFunction& function) { return function.name == name; });
}

}  // namespace

Status read_tools(ToolsInput& tools, const json::value& value) {
  const auto* array = value.if_array();
  if (array == nullptr)
    return field_error("tools", "`tools` must be a list of functions, but it is {}",
                       json_kind(value));
  if (array->empty())
    return field_error("tools", "`tools` must not be empty: leave it out when there are none");
  if (array->size() > kMaxTools) {
    return field_error("tools", "`tools` may hold at most {} functions, but it holds {}", kMaxTools,
                       array->size());
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    QUIRE_ASSIGN(auto function, read_function((*array)[i], where));
    if (has(tools, function.name)) {
      return field_error(where + ".function.name",
                         "`tools` has two functions of the name \"{}\": names must differ",
                         function.name);
    }
    tools.functions.push_back(std::move(function));
  }
  tools.json = json::serialize(*array);
  tools.set = std::make_shared<const ToolSet>(ToolSet::from_json(*array));
  return {};
}

Status read_tool_choice(ToolsInput& tools, const json::value& value) {
  if (const auto* word = value.if_string()) {
    if (*word == "none") {
      tools.choice = ToolChoice::kNone;
    } else if (*word == "auto") {
      tools.choice = ToolChoice::kAuto;
    } else if (*word == "required") {
      tools.choice = ToolChoice::kRequired;
    } else {
      return field_error("tool_choice",
                         "`tool_choice` must be \"none\", \"auto\", \"required\" or one function, "
                         "but it is \"{}\"",
                         view(*word).substr(0, 64));
    }
    return {};
  }
  const std::string where = "tool_choice";
  QUIRE_ASSIGN(const auto* function, function_of(value, where));
  QUIRE_ASSIGN(tools.name, name_of(*function, where));
  tools.choice = ToolChoice::kNamed;
  return {};
}

Status check_tools(const ToolsInput& tools) {
  if (tools.functions.empty()) {
    // "none" and "auto" ask for nothing while no tools are given.
    if (tools.forced())
      return field_error("tool_choice", "`tool_choice` needs `tools` to choose from");
    return {};
  }
  if (tools.choice == ToolChoice::kNamed && !has(tools, tools.name)) {
    return field_error("tool_choice", "`tool_choice` names \"{}\", which is not among `tools`",
                       tools.name);
  }
  return {};
}

}  // namespace quire
