// The families of models by the way they write reasoning and calls: names as vLLM's
// --tool-call-parser and --reasoning-parser have them, what a chat template tells about its family,
// and the parser for one answer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/reasoning.h"
#include "dialect/reply_parser.h"
#include "dialect/tool_set.h"

namespace quire {

// Empty: none. A name is one of those below.
struct Dialect {
  std::string tools, reasoning;
};

// What the source of a chat template shows; empty members where it shows nothing.
Dialect dialect_of_template(std::string_view source);
// All names that the flags take, in order.
std::vector<std::string_view> tool_parser_names();
std::vector<std::string_view> reasoning_parser_names();
bool is_tool_parser(std::string_view name);
bool is_reasoning_parser(std::string_view name);

// gpt-oss: reasoning and calls by channels.
bool is_harmony(const Dialect& dialect);
// Null for "" and for a family that has no thinking between two marks.
const ReasoningFormat* reasoning_format(std::string_view name);
// Texts of tokens that a parser of this dialect must see, special ones among them: they have to be
// in its text though the user never sees special tokens.
std::vector<std::string_view> marks_of(const Dialect& dialect);

struct ReplyOptions {
  Dialect dialect;
  bool calls = false;  // the request's functions may be called: else calls are text
  std::shared_ptr<const ToolSet> tools = std::make_shared<ToolSet>();
  // A grammar makes the answer (after the thinking) the arguments of one function, or a list of
  // {"name", "parameters"}.
  enum class Forced { kNo, kArguments, kList } forced = Forced::kNo;
  std::string forced_function;
  bool begins_inside = false;  // see reasoning.h
};
std::unique_ptr<ReplyParser> make_reply_parser(const ReplyOptions& options);

}  // namespace quire
