#include "server/protocol/tools_grammar.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

namespace quire {
namespace {

namespace json = boost::json;

// References inside a schema begin at its root: where it is put into another one, they must begin
// at its place there.
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

json::value schema_of(const ToolFunction& function) {
  if (!function.parameters_json.empty()) return json::parse(function.parameters_json);
  return json::object{
      {"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}};
}

// Calls of models tend to add what nobody asked for: only what the schema mentions is allowed,
// unless it says otherwise.
GrammarSpec spec_of(const json::value& schema) {
  GrammarSpec out;
  out.kind = GrammarSpec::Kind::kJsonSchema;
  out.text = json::serialize(schema);
  out.disable_additional_properties = true;
  return out;
}

}  // namespace

GrammarSpec arguments_grammar(const ToolFunction& function) { return spec_of(schema_of(function)); }

GrammarSpec tools_grammar(const ToolsInput& tools, bool parallel) {
  if (tools.choice == ToolChoice::kNamed) {
    const auto named = std::find_if(tools.functions.begin(), tools.functions.end(),
                                    [&](const auto& f) { return f.name == tools.name; });
    return arguments_grammar(*named);
  }
  json::array calls;
  for (std::size_t i = 0; i < tools.functions.size(); ++i) {
    json::value parameters = schema_of(tools.functions[i]);
    move_references(parameters, fmt::format("#/items/anyOf/{}/properties/parameters", i));
    json::array names;
    names.emplace_back(json::string(tools.functions[i].name));
    calls.emplace_back(json::object{
        {"type", "object"},
        {"properties", {{"name", {{"enum", std::move(names)}}}, {"parameters", parameters}}},
        {"required", json::array{"name", "parameters"}},
        {"additionalProperties", false}});
  }
  json::object list{{"type", "array"}, {"minItems", 1}};
  if (!parallel) list["maxItems"] = 1;
  list["items"] = json::object{{"anyOf", std::move(calls)}};
  return spec_of(list);
}

}  // namespace quire
