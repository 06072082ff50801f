#include "server/thinking.h"

#include "server/protocol/field_table.h"

namespace quire {
namespace {

// gpt-oss thinks until the message to the user begins.
constexpr std::string_view kHarmonyAnswer = "<|channel|>final<|message|>";

Status set_marks(const ProtocolContext& context, const ReasoningFormat& format,
                 std::string_view prompt, RequestTemplate* parts) {
  const auto state = thinking_state(format, prompt);
  if (state == ThinkingState::kEnded) return {};
  QUIRE_ASSIGN(const auto end, context.text->encode(format.ends.front(), false));
  QUIRE_ASSIGN(const auto begin, context.text->encode(format.begins.front(), false));
  if (state == ThinkingState::kMayBegin) {
    if (begin.size() != 1) return {};  // not known by its first token: the answer comes at once
    parts->thinking.begin_token = begin.front();
  }
  parts->grammar_start = end;
  return {};
}

}  // namespace

Status set_thinking(const ProtocolContext& context, std::string_view prompt, std::int32_t budget,
                    RequestTemplate* parts) {
  const Dialect& dialect = context.dialect->dialect;
  const auto* format = reasoning_format(dialect.reasoning);
  if (parts->grammar != nullptr && parts->grammar_has_thinking) return {};
  if (budget >= 0 && format == nullptr) {
    return field_error("thinking_token_budget",
                       "`thinking_token_budget` needs a model whose thinking stands between two "
                       "marks: see --reasoning-parser");
  }
  if (parts->grammar == nullptr && budget < 0) return {};
  if (format != nullptr) {
    QUIRE_TRY(set_marks(context, *format, prompt, parts));
    parts->thinking.budget = budget;
  } else if (is_harmony(dialect)) {
    QUIRE_ASSIGN(parts->grammar_start, context.text->encode(kHarmonyAnswer, false));
  }
  return {};
}

}  // namespace quire
