#include "server/protocol/openapi.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <cmath>

#include "base/check.h"

namespace quire {
namespace {

namespace json = boost::json;

json::string_view json_view(std::string_view text) { return {text.data(), text.size()}; }

// Whole numbers without a fraction, as JSON Schema's readers expect of an integer's limits.
json::value number(double value) {
  if (std::abs(value) < 9e15 && std::trunc(value) == value) return static_cast<std::int64_t>(value);
  return value;
}

void add_limits(const FieldInfo& field, json::object& out) {
  out[field.above_min ? "exclusiveMinimum" : "minimum"] = number(field.min);
  if (field.max < 1e15) out["maximum"] = number(field.max);
  if (field.min < -1e15) out.erase("minimum");
}

void add_counts(const FieldInfo& field, const char* least, const char* most, json::object& out) {
  if (field.min_items > 0) out[least] = field.min_items;
  if (field.max_items < SIZE_MAX) out[most] = field.max_items;
}

json::object strings_schema(const FieldInfo& field) {
  json::object one{{"type", "string"}, {"minLength", 1}};
  json::object list{{"type", "array"}, {"items", one}};
  add_counts(field, "minItems", "maxItems", list);
  return {{"anyOf", json::array{std::move(one), std::move(list)}}};
}

// Without null.
json::object kind_schema(const FieldInfo& field) {
  json::object out;
  switch (field.kind) {
    case FieldKind::kBool:
      return {{"type", "boolean"}};
    case FieldKind::kInteger:
    case FieldKind::kNumber:
      out["type"] = field.kind == FieldKind::kInteger ? "integer" : "number";
      add_limits(field, out);
      return out;
    case FieldKind::kString:
      out["type"] = "string";
      add_counts(field, "minLength", "maxLength", out);
      return out;
    case FieldKind::kChoice: {
      json::array values;
      for (const auto choice : split_choices(field.choices)) values.emplace_back(json_view(choice));
      return {{"enum", std::move(values)}};
    }
    case FieldKind::kIntegers: {
      json::object item{{"type", "integer"}};
      add_limits(field, item);
      out = {{"type", "array"}, {"items", std::move(item)}};
      add_counts(field, "minItems", "maxItems", out);
      return out;
    }
    case FieldKind::kStrings:
      return strings_schema(field);
    case FieldKind::kObject:
      return field.nested != nullptr ? object_schema(field.nested())
                                     : json::object{{"type", "object"}};
    case FieldKind::kNeutral:
      return {{"enum", json::array{false, 0, "", json::array{}, json::object{}}}};
    case FieldKind::kAny:
      break;
  }
  QUIRE_CHECK(!field.schema.empty(), "field {} has no schema", field.name);
  return json::parse(json_view(field.schema)).as_object();
}

json::array origin_names(unsigned origins) {
  json::array out;
  if (origins & kOpenAi) out.emplace_back("openai");
  if (origins & kVllm) out.emplace_back("vllm");
  if (origins & kLlamaCpp) out.emplace_back("llama.cpp");
  return out;
}

json::object reference(std::string_view name) {
  return {{"$ref", fmt::format("#/components/schemas/{}", name)}};
}

json::object answers_of(const ApiOperation& operation) {
  json::object content;
  if (operation.response.empty() || operation.response == "Page") {
    content[operation.response.empty() ? "text/plain" : "text/html"] =
        json::object{{"schema", json::object{{"type", "string"}}}};
  } else {
    content["application/json"] = json::object{{"schema", reference(operation.response)}};
  }
  // Of one event, as readers of such streams take it: its fields.
  if (operation.streams) {
    content["text/event-stream"] =
        json::object{{"schema", json::object{{"type", "object"},
                                             {"required", json::array{"data"}},
                                             {"properties", {{"data", {{"type", "string"}}}}}}}};
  }
  json::object answers;
  answers["200"] = json::object{{"description", "OK"}, {"content", std::move(content)}};
  const auto error = [&](const char* status, const char* what) {
    answers[status] = json::object{
        {"description", what},
        {"content",
         json::object{{"application/json", json::object{{"schema", reference("Error")}}}}}};
  };
  error("401", "The API key is missing or wrong");
  error("404", "Not found: the path, or the model");
  if (operation.fields != nullptr) {
    error("400", "A field is wrong: `param` names it");
    error("413", "The body is too long");
    error("415", "The body is no JSON by its content type");
  }
  error("503", "Not ready, or too busy: try again later");
  return answers;
}

// "/v1/chat/completions" -> "ChatCompletionsRequest"
std::string request_name(std::string_view path) {
  std::string out;
  bool upper = true;
  for (const char c : path.substr(path.rfind("/v1/", 0) == 0 ? 4 : 1)) {
    if (c == '/' || c == '_') {
      upper = true;
    } else {
      out += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
  }
  return out + "Request";
}

json::object operation_json(const ApiOperation& operation) {
  json::object out;
  out["summary"] = json_view(operation.summary);
  if (const auto brace = operation.path.find('{'); brace != std::string_view::npos) {
    out["parameters"] = json::array{json::object{
        {"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}};
  }
  if (operation.fields != nullptr) {
    out["requestBody"] = json::object{
        {"required", true},
        {"content",
         json::object{{"application/json",
                       json::object{{"schema", reference(request_name(operation.path))}}}}}};
  }
  out["responses"] = answers_of(operation);
  return out;
}

}  // namespace

json::object field_schema(const FieldInfo& field) {
  json::object out = kind_schema(field);
  if (!field.required) {  // null means absent
    if (auto* type = out.if_contains("type"); type != nullptr && type->is_string()) {
      *type = json::array{*type, "null"};
    } else if (auto* values = out.if_contains("enum")) {
      values->as_array().emplace_back(nullptr);
    } else {
      out = {{"anyOf", json::array{std::move(out), json::object{{"type", "null"}}}}};
    }
  }
  const char* refused = field.kind == FieldKind::kNeutral ? ". Not supported: leave it out" : "";
  if (!field.note.empty()) out["description"] = fmt::format("{}{}", field.note, refused);
  boost::system::error_code error;
  if (json::value fallback = json::parse(json_view(field.fallback), error);
      !error && !fallback.is_null()) {
    out["default"] = std::move(fallback);
  }
  if (field.origins != 0) out["x-also-in"] = origin_names(field.origins);
  return out;
}

json::object object_schema(std::span<const FieldInfo> fields) {
  json::object properties;
  json::array required;
  for (const FieldInfo& field : fields) {
    properties[json_view(field.name)] = field_schema(field);
    if (field.required) required.emplace_back(json_view(field.name));
  }
  json::object out{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

std::string openapi_document(const ApiTitle& title, std::span<const ApiOperation> operations) {
  json::object paths, schemas = response_schemas();
  for (const ApiOperation& operation : operations) {
    if (operation.fields != nullptr)
      schemas[request_name(operation.path)] = object_schema(operation.fields());
    json::object& item = paths[json_view(operation.path)].is_null()
                             ? paths[json_view(operation.path)].emplace_object()
                             : paths[json_view(operation.path)].as_object();
    for (const auto* method : {"GET", "HEAD", "POST"}) {
      if (fmt::format(", {},", operation.methods).find(fmt::format(", {},", method)) !=
          std::string::npos) {
        item[method == std::string_view("GET")    ? "get"
             : method == std::string_view("HEAD") ? "head"
                                                  : "post"] = operation_json(operation);
      }
    }
  }
  json::object components{{"schemas", std::move(schemas)}};
  json::object out{
      {"openapi", "3.1.0"},
      {"info", {{"title", "Quire"}, {"version", json_view(title.version)}}},
      {"paths", std::move(paths)},
  };
  if (title.needs_key) {
    components["securitySchemes"] = json::object{{"key", {{"type", "http"}, {"scheme", "bearer"}}}};
    out["security"] = json::array{json::object{{"key", json::array{}}}};
  }
  out["components"] = std::move(components);
  return json::serialize(out);
}

}  // namespace quire
