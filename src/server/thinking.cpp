#include "server/thinking.h"

#include <boost/json/array.hpp>

#include "server/protocol/field_table.h"
#include "server/protocol/tag_format.h"

namespace quire {
namespace {

// gpt-oss thinks until the message to the user begins.
constexpr std::string_view kHarmonyAnswer = "<|channel|>final<|message|>";

// What comes from the beginning to the end, where either is more than a token: tokens need not keep
// to a mark's borders. rest_of_begin: what of the opening mark did not come as tokens of its own.
Result<std::shared_ptr<const Grammar>> thinking_text(const ProtocolContext& context,
                                                     const ReasoningFormat& format,
                                                     std::string_view rest_of_begin) {
  boost::json::array ends;
  for (const auto end : format.ends) ends.emplace_back(boost::json::string(end.data(), end.size()));
  return compile_grammar(context, tag_format::spec(tag_format::tag(
                                      rest_of_begin, tag_format::any_text(), std::move(ends))));
}

Status set_marks(const ProtocolContext& context, const ReasoningFormat& format,
                 std::string_view prompt, RequestTemplate* parts) {
  const auto state = thinking_state(format, prompt);
  if (state == ThinkingState::kEnded) return {};
  QUIRE_ASSIGN(parts->grammar_start, context.text->encode(format.ends.front(), false));
  bool by_tokens = parts->grammar_start.size() == 1;
  std::string_view begin = format.begins.front(), rest;
  if (state == ThinkingState::kMayBegin) {
    QUIRE_ASSIGN(parts->thinking.begin, context.text->encode(begin, false));
    if (parts->thinking.begin.size() > 1) {
      // A token may hold the mark's last character and more.
      by_tokens = false;
      rest = begin.substr(begin.size() - 1);
      begin.remove_suffix(1);
      QUIRE_ASSIGN(parts->thinking.begin, context.text->encode(begin, false));
    }
  }
  if (!by_tokens) {
    QUIRE_ASSIGN(parts->thinking.text, thinking_text(context, format, rest));
  }
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
