// See tool_set.h. Reads only the types of top-level parameters.
#include "dialect/tool_set.h"

#include <boost/json/object.hpp>

#include "dialect/json_view.h"

namespace quire {
namespace {

namespace json = boost::json;

ParamType named_type(std::string_view name) {
  if (name == "string") return ParamType::kString;
  if (name == "integer") return ParamType::kInteger;
  if (name == "number") return ParamType::kNumber;
  if (name == "boolean") return ParamType::kBoolean;
  if (name == "object") return ParamType::kObject;
  if (name == "array") return ParamType::kArray;
  if (name == "null") return ParamType::kNull;
  return ParamType::kUnknown;
}

ParamType joined(ParamType a, ParamType b) {
  if (a == ParamType::kUnknown || a == b) return b;
  const auto textual = [](ParamType t) {
    return t == ParamType::kString || t == ParamType::kNull || t == ParamType::kStringOrNull;
  };
  if (textual(a) && textual(b)) return ParamType::kStringOrNull;
  return ParamType::kMixed;
}

ParamType type_of_schema(const json::value& schema) {
  const auto* object = schema.if_object();
  if (object == nullptr) return ParamType::kUnknown;
  if (const auto* type = object->if_contains("type")) {
    if (const auto* name = type->if_string()) return named_type(view(*name));
    ParamType out = ParamType::kUnknown;
    if (const auto* names = type->if_array()) {
      for (const auto& name : *names)
        if (name.is_string()) out = joined(out, named_type(view(name.get_string())));
    }
    return out;
  }
  if (const auto* values = object->if_contains("enum"); values && values->is_array()) {
    ParamType out = ParamType::kUnknown;
    for (const auto& value : values->get_array())
      out = joined(out, value.is_string() ? ParamType::kString : ParamType::kMixed);
    return out;
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto* choices = object->if_contains(key);
    if (choices == nullptr || !choices->is_array()) continue;
    ParamType out = ParamType::kUnknown;
    for (const auto& choice : choices->get_array()) out = joined(out, type_of_schema(choice));
    return out;
  }
  return ParamType::kUnknown;
}

}  // namespace

ToolSet ToolSet::from_json(const json::array& tools) {
  ToolSet out;
  for (const auto& tool : tools) {
    const auto* object = tool.if_object();
    const auto* function = object == nullptr ? nullptr : object->if_contains("function");
    const auto* name = function == nullptr || !function->is_object()
                           ? nullptr
                           : function->get_object().if_contains("name");
    if (name == nullptr || !name->is_string()) continue;
    auto& params = out.functions_[std::string(view(name->get_string()))];
    const auto* schema = function->get_object().if_contains("parameters");
    const auto* properties = schema == nullptr || !schema->is_object()
                                 ? nullptr
                                 : schema->get_object().if_contains("properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& property : properties->get_object())
      params[std::string(property.key())] = type_of_schema(property.value());
  }
  return out;
}

ParamType ToolSet::type_of(std::string_view function, std::string_view param) const {
  const auto found = functions_.find(function);
  if (found == functions_.end()) return ParamType::kUnknown;
  const auto type = found->second.find(param);
  return type == found->second.end() ? ParamType::kUnknown : type->second;
}

}  // namespace quire
