// Answers of models, read whole, byte by byte and in pieces: the same calls, content and reasoning.
// The first byte chooses the family, the second the pieces; the rest is the answer.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "dialect/dialects.h"

namespace {

using quire::Parsed;

struct Whole {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;
  bool operator==(const Whole&) const = default;
};

void add(const Parsed& piece, Whole* whole) {
  whole->reasoning += piece.reasoning;
  whole->content += piece.content;
  for (const auto& call : piece.calls) {
    if (!call.name.empty()) whole->calls.emplace_back(call.name, "");
    if (static_cast<std::size_t>(call.index) + 1 != whole->calls.size()) std::abort();
    whole->calls.back().second += call.arguments;
  }
}

Whole read(const quire::ReplyOptions& options, std::string_view text, std::size_t step) {
  const auto parser = quire::make_reply_parser(options);
  Whole out;
  for (std::size_t at = 0; at < text.size(); at += step) {
    Parsed piece;
    parser->push(text.substr(at, step), &piece);
    add(piece, &out);
  }
  Parsed last;
  parser->finish(&last);
  add(last, &out);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const auto kNames = quire::tool_parser_names();
  static const auto kReasoning = quire::reasoning_parser_names();
  quire::ReplyOptions options;
  options.dialect.tools = kNames[data[0] % kNames.size()];
  if ((data[1] & 1) != 0) options.dialect.reasoning = kReasoning[data[1] / 8 % kReasoning.size()];
  options.begins_inside = (data[1] & 2) != 0;
  options.calls = true;
  options.tools = std::make_shared<quire::ToolSet>(
      quire::ToolSet::from_json({{{"type", "function"}, {"function", {{"name", "f"}}}}}));
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Whole whole = read(options, text, text.size() + 1);
  if (read(options, text, 1) != whole) std::abort();
  if (read(options, text, 1 + data[1] / 16) != whole) std::abort();
  return 0;
}
