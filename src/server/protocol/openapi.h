// The OpenAPI document of the server, made of the tables that parse its requests. Written once at
// the start.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/protocol/field_info.h"

namespace quire {

// What the document says of one route.
struct ApiOperation {
  std::string_view path;     // "/v1/models/{id}"
  std::string_view methods;  // "GET, HEAD"
  std::string_view summary;
  std::vector<FieldInfo> (*fields)() = nullptr;  // of the body; null: none
  // Name of a schema; "": plain text, "Page": HTML.
  std::string_view response;
  bool streams = false;  // may answer with server-sent events
};

// JSON Schema of one field's value.
boost::json::object field_schema(const FieldInfo& field);
// Of an object with these fields; unknown ones are allowed.
boost::json::object object_schema(std::span<const FieldInfo> fields);
// Schemas of answers, by name.
boost::json::object response_schemas();

struct ApiTitle {
  std::string_view version;
  bool needs_key = false;
};
std::string openapi_document(const ApiTitle& title, std::span<const ApiOperation> operations);

}  // namespace quire
