// What an answer must be so that the calls in it fit the functions' schemas: in the form that the
// model's family has, else as JSON alone.
#pragma once

#include <cstdint>
#include <optional>

#include "dialect/call_form.h"
#include "server/protocol/tools_request.h"
#include "text/grammar.h"

namespace quire {

// Calls without a form: the arguments of the named function, or a list of {"name", "parameters"} of
// the functions offered. Of a forced choice. parallel: the list may have more than one call.
GrammarSpec bare_calls_grammar(const ToolsInput& tools, bool parallel);
// The arguments of one function alone. Without parameters: {}.
GrammarSpec arguments_grammar(const ToolFunction& function);

// A forced choice: nothing but calls. `auto`: free text, and calls whose arguments fit where the
// function is strict. kUnsupported when a schema can't be written in this form; the error's param
// is the function's place. after_thinking: the answer may begin with a line break or two.
Result<GrammarSpec> calls_grammar(const CallForm& form, const ToolsInput& tools, bool parallel,
                                  bool after_thinking);

// Of harmony's whole answer, thinking and all.
struct HarmonyAnswer {
  std::int32_t thinking_budget = -1;   // most tokens of it: then the answer begins; -1: no limit
  std::optional<GrammarSpec> content;  // what the message to the user must fit
};
GrammarSpec harmony_grammar(const ToolsInput& tools, const HarmonyAnswer& answer);

}  // namespace quire
