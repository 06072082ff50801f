#include "server/chat_dialect.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"

namespace quire {
namespace {

bool from_template(const std::string& value) { return value.empty() || value == "auto"; }
bool is_off(const std::string& value) { return value == "none" || value == "identity"; }

Status check_name(std::string_view flag, const std::string& value,
                  const std::vector<std::string_view>& names) {
  if (from_template(value) || is_off(value)) return {};
  if (std::find(names.begin(), names.end(), value) != names.end()) return {};
  return field_error(flag, "{} must be auto, none, or one of {}, but it is '{}'", flag,
                     fmt::join(names, ", "), value);
}

std::string chosen(const std::string& value, std::string found) {
  if (from_template(value)) return found;
  return is_off(value) ? std::string() : value;
}

std::vector<std::vector<TokenId>> tokens_of(const std::vector<std::string_view>& marks,
                                            const TextService& text) {
  std::vector<std::vector<TokenId>> out;
  for (const auto mark : marks) {
    auto ids = text.encode(mark, false);
    if (ids && !ids->empty()) out.push_back(std::move(*ids));
  }
  return out;
}

ThinkingMarks thinking_marks(const Dialect& dialect, const TextService& text) {
  if (is_harmony(dialect)) {
    return {tokens_of({"<|channel|>analysis<|message|>"}, text),
            tokens_of({"<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"}, text),
            true};
  }
  const auto* format = reasoning_format(dialect.reasoning);
  if (format == nullptr) return {};
  return {tokens_of(format->begins, text), tokens_of(format->ends, text)};
}

}  // namespace

Status check_parser_names(const ServerOptions& options) {
  QUIRE_TRY(check_name("--tool-call-parser", options.tool_call_parser, tool_parser_names()));
  return check_name("--reasoning-parser", options.reasoning_parser, reasoning_parser_names());
}

ChatDialect make_chat_dialect(const ServerOptions& options, const TextService& text) {
  const std::string_view source = text.chat_template_source();
  Dialect found = dialect_of_template(source);
  ChatDialect out;
  out.template_has_tools = source.find("tools") != std::string_view::npos;
  // A template without tools gets them in words of ours, which ask for Hermes' form.
  if (!out.template_has_tools && !source.empty()) found.tools = "hermes";
  out.dialect.tools = chosen(options.tool_call_parser, std::move(found.tools));
  out.dialect.reasoning = chosen(options.reasoning_parser, std::move(found.reasoning));
  out.form = call_form(out.dialect.tools, source);
  out.thinking = thinking_marks(out.dialect, text);
  std::vector<TokenId> shown;
  for (const auto mark : marks_of(out.dialect))
    if (const auto id = text.special_token(mark)) shown.push_back(*id);
  out.shown = std::make_shared<const std::vector<TokenId>>(std::move(shown));
  if (!source.empty()) {
    log_info("calls are read as {}, reasoning as {}",
             out.dialect.tools.empty() ? "text" : out.dialect.tools,
             out.dialect.reasoning.empty() ? "text" : out.dialect.reasoning);
  }
  return out;
}

}  // namespace quire
