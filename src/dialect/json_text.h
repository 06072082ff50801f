// Small pieces of JSON text, written and checked.
#pragma once

#include <string>
#include <string_view>

#include "dialect/tool_set.h"

namespace quire {

// Appends `text` as it stands inside a JSON string: quotes, backslashes, control characters
// escaped.
void append_escaped(std::string_view text, std::string& out);
std::string json_quoted(std::string_view text);
// Is all of `text` (but white space around it) one JSON value?
bool is_json(std::string_view text);
// The JSON text of a value that a model wrote bare, for a parameter of this type: JSON or a Python
// literal where the type allows one, else a string.
std::string value_as_json(std::string_view text, ParamType type);
// Escapes a control character inside a JSON string that is copied; others are appended as they are.
void append_json_byte(char c, bool in_string, std::string& out);

}  // namespace quire
