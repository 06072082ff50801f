// See constrain_calls.h.
#include "server/constrain_calls.h"

#include <algorithm>

#include "server/protocol/tools_grammar.h"

namespace quire {
namespace {

bool any_strict(const ToolsInput& tools) {
  return tools.choice == ToolChoice::kAuto &&
         std::any_of(tools.functions.begin(), tools.functions.end(),
                     [](const ToolFunction& function) { return function.strict; });
}

// Beams follow no grammar and no budget.
Status check_beams(const ChatRequest& request) {
  if (!request.use_beam_search) return {};
  const char* field = request.chat.tools.forced()           ? "tool_choice"
                      : any_strict(request.chat.tools)      ? "tools"
                      : request.thinking_token_budget != -1 ? "thinking_token_budget"
                                                            : nullptr;
  if (field == nullptr) return {};
  const std::string_view what = request.chat.tools.forced()      ? "a forced `tool_choice`"
                                : any_strict(request.chat.tools) ? "a strict function in `tools`"
                                                                 : "`thinking_token_budget`";
  return field_error(field, "{} is not possible with `use_beam_search` = true", what);
}

// When the grammar of all calls is refused: one by one, so that the error speaks of the function's
// own schema.
Status check_schemas(const ProtocolContext& context, const ToolsInput& tools) {
  for (std::size_t i = 0; i < tools.functions.size(); ++i) {
    const ToolFunction& function = tools.functions[i];
    if (tools.choice == ToolChoice::kNamed && function.name != tools.name) continue;
    if (!tools.forced() && !function.strict) continue;
    const auto grammar = compile_grammar(context, arguments_grammar(function));
    if (grammar) continue;
    if (grammar.error().code != ErrorCode::kInvalidArgument) return tl::unexpected(grammar.error());
    const std::string place = fmt::format("tools[{}].function.parameters", i);
    return field_error(place, "`{}`: {}", place, grammar.error().message);
  }
  return {};
}

Result<Constrained> constrain_harmony(const ProtocolContext& context, ChatRequest& request) {
  HarmonyAnswer answer;
  answer.thinking_budget = request.thinking_token_budget;
  if (request.grammar) {
    QUIRE_TRY(compile_grammar(context, request));  // its error speaks of its own field
    answer.content = request.grammar;
  } else {
    request.grammar_field = "tools";
  }
  request.grammar = harmony_grammar(request.chat.tools, answer);
  return Constrained::kWholeAnswer;
}

Result<Constrained> constrain_family(const ProtocolContext& context, ChatRequest& request) {
  const ToolsInput& tools = request.chat.tools;
  const bool parallel = request.parallel_tool_calls;
  request.grammar_field = "tools";
  Result<GrammarSpec> grammar = make_error(ErrorCode::kUnsupported, "no form");
  if (context.dialect->form != nullptr) {
    grammar = calls_grammar(*context.dialect->form, tools, parallel,
                            !context.dialect->dialect.reasoning.empty());
    if (grammar) {
      request.grammar = std::move(*grammar);
      return Constrained::kCalls;
    }
  }
  if (tools.forced()) {
    request.grammar = bare_calls_grammar(tools, parallel);
    return Constrained::kBareCalls;
  }
  return field_error(grammar.error().param,
                     "`{}` can't be enforced in this model's form of calls ({}): leave `strict` "
                     "out, or force the call with `tool_choice`",
                     grammar.error().param, grammar.error().message);
}

}  // namespace

Result<Constrained> constrain_calls(const ProtocolContext& context, ChatRequest& request) {
  const ToolsInput& tools = request.chat.tools;
  QUIRE_TRY(check_beams(request));
  if (tools.forced() && request.grammar) {
    return field_error("tool_choice",
                       "`tool_choice` and `{}` both say what the answer must be: give one of them",
                       request.grammar_field);
  }
  const Dialect& dialect = context.dialect->dialect;
  // Where calls are not read, none is written.
  const bool strict = any_strict(tools) && !dialect.tools.empty() && !request.grammar;
  Constrained out = Constrained::kNo;
  if (is_harmony(dialect) && (tools.forced() || strict || request.thinking_token_budget >= 0)) {
    QUIRE_ASSIGN(out, constrain_harmony(context, request));
  } else if (tools.forced() || strict) {
    QUIRE_ASSIGN(out, constrain_family(context, request));
  } else {
    return Constrained::kNo;
  }
  const auto whole = compile_grammar(context, request);
  if (whole) return out;
  if (whole.error().code == ErrorCode::kInvalidArgument) QUIRE_TRY(check_schemas(context, tools));
  return tl::unexpected(whole.error());
}

}  // namespace quire
