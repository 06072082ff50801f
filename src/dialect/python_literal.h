// Python's literals as JSON text: what models of the "pythonic" families write as arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// One whole literal: text in either quotes, numbers, True/False/None (and JSON's spellings), lists,
// tuples, dicts with keys of text. nullopt when it is something else.
std::optional<std::string> python_to_json(std::string_view text);

}  // namespace quire
