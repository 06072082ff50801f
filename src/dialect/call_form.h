// How the families of models write calls: what a grammar needs to make a model write them, as
// reply_parser.h is how they are read.
#pragma once

#include <string_view>

namespace quire {

struct CallForm {
  enum class Kind {
    kObjects,   // each call {"name", "arguments"}, between its marks if it has any
    kList,      // one list of such objects
    kNamed,     // a name, then the arguments as an object
    kTags,      // a name, then every parameter between tags; text stands bare
    kPython,    // f(a=1, b="x")
    kBareKeys,  // f{a:1,b:"x"}, text between marks of its own
    kHarmony,   // messages with a recipient
  };
  Kind kind = Kind::kObjects;
  std::string_view hint = {};             // templates with it have this form; empty: any
  std::string_view begin = {}, end = {};  // around all calls
  std::string_view call_begin = {}, call_end = {}, separator = {};
  std::string_view name_end = {};  // behind the name; "{index}" in it is the number of the call
  std::string_view name_key = "name", arguments_key = "arguments";  // of objects
  std::string_view number_key = {};  // of objects, before the name: "0", "1", ...
  std::string_view key_begin = {}, key_end = {}, value_end = {};  // of kTags
  std::string_view quote = {};                                    // of kBareKeys, around text
};

// Of a parser's name (dialects.h) with this chat template; null: none is known.
const CallForm* call_form(std::string_view tool_parser, std::string_view template_source);

}  // namespace quire
