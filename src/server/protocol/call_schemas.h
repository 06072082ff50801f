// JSON Schemas of a function's arguments, and what of them can be written one by one.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/protocol/tools_request.h"

namespace quire {

// Without parameters: an object that has none.
boost::json::value schema_of(const ToolFunction& function);
// Of arguments that nothing is asked of.
boost::json::value any_object_schema();
// References inside a schema begin at its root: where it is put into another one, they must begin
// at its place there.
void move_references(boost::json::value& schema, const std::string& place);

struct Parameter {
  std::string name;
  boost::json::value schema;  // complete in itself
  bool required = false;
};
// In the order of the schema. kUnsupported when it says more than which parameters there are.
Result<std::vector<Parameter>> parameters_of(const ToolFunction& function);

// A schema of bare text.
struct TextSchema {
  std::vector<std::string> choices;  // one of these, where not empty
  std::string pattern;               // all of it matches, where not empty
};
// Of a parameter of type string. kUnsupported when it can't be told of bare text.
Result<TextSchema> text_schema(const Parameter& parameter);

}  // namespace quire
