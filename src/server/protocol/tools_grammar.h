// What an answer must be when a request forces calls: the arguments of the named function, or a
// list of {"name", "parameters"} of the functions offered.
#pragma once

#include "server/protocol/tools_request.h"
#include "text/grammar.h"

namespace quire {

// Of a forced choice. parallel: the list may have more than one call.
GrammarSpec tools_grammar(const ToolsInput& tools, bool parallel);
// The arguments of one function alone. Without parameters: {}.
GrammarSpec arguments_grammar(const ToolFunction& function);

}  // namespace quire
