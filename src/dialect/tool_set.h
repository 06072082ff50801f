// The functions that a request offers, as far as reading their calls needs them: names, and the
// types of parameters for families that write values bare. Immutable.
#pragma once

#include <boost/json/array.hpp>
#include <map>
#include <string>
#include <string_view>

namespace quire {

enum class ParamType {
  kUnknown,
  kString,
  kInteger,
  kNumber,
  kBoolean,
  kObject,
  kArray,
  kNull,
  kStringOrNull,
  kMixed  // several others: what reads as JSON is JSON, the rest text
};

class ToolSet {
 public:
  ToolSet() = default;
  // Of OpenAI's `tools`, checked: a list of {"type": "function", "function": {"name", ...}}.
  static ToolSet from_json(const boost::json::array& tools);
  bool has(std::string_view name) const { return functions_.find(name) != functions_.end(); }
  bool empty() const { return functions_.empty(); }
  ParamType type_of(std::string_view function, std::string_view param) const;

 private:
  std::map<std::string, std::map<std::string, ParamType, std::less<>>, std::less<>> functions_;
};

}  // namespace quire
