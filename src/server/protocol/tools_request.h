// `tools` and `tool_choice` of a chat request, checked.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "dialect/tool_set.h"

namespace quire {

enum class ToolChoice { kNone, kAuto, kRequired, kNamed };

struct ToolFunction {
  std::string name;
  std::string parameters_json;  // a JSON Schema; empty: none was given
  bool strict = false;
};

struct ToolsInput {
  std::vector<ToolFunction> functions;  // empty: the request has no tools
  std::string json;                     // as the client wrote them: for the template
  std::shared_ptr<const ToolSet> set = std::make_shared<ToolSet>();
  // Absent: auto when there are tools.
  ToolChoice choice = ToolChoice::kAuto;
  std::string name;  // kNamed

  // The model may call: there are functions, and the request allows it.
  bool callable() const { return !functions.empty() && choice != ToolChoice::kNone; }
  bool forced() const { return choice == ToolChoice::kRequired || choice == ToolChoice::kNamed; }
};

// A list of {"type": "function", "function": {"name", "parameters", ...}}: at least one, names of
// at most 64 letters, digits, _ - . : /, each once, schemas that are objects.
Status read_tools(ToolsInput& tools, const boost::json::value& value);
Status read_tool_choice(ToolsInput& tools, const boost::json::value& value);
// Rules between the two.
Status check_tools(const ToolsInput& tools);

}  // namespace quire
