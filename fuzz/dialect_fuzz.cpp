// Answers of models, read whole, byte by byte and in pieces: the same calls, content and reasoning.
// The first byte chooses the family, the second how it is read, the third the pieces; the rest is
// the answer.
#include <boost/json/parse.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dialect/dialects.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using quire::Parsed;

constexpr std::size_t kHeader = 3;

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

// In pieces of sizes that go round.
Whole read(const quire::ReplyOptions& options, std::string_view text,
           const std::vector<std::size_t>& sizes) {
  const auto parser = quire::make_reply_parser(options);
  Whole out;
  for (std::size_t at = 0, i = 0; at < text.size(); at += sizes[i++ % sizes.size()]) {
    Parsed piece;
    parser->push(text.substr(at, sizes[i % sizes.size()]), &piece);
    add(piece, &out);
  }
  Parsed last;
  parser->finish(&last);
  add(last, &out);
  return out;
}

std::shared_ptr<const quire::ToolSet> tools() {
  return std::make_shared<const quire::ToolSet>(quire::ToolSet::from_json(boost::json::parse(R"([
        {"type": "function", "function": {"name": "get_weather", "parameters": {"properties": {
          "city": {"type": "string"}, "days": {"type": "integer"}, "flags": {"type": "array"},
          "note": {"type": ["string", "null"]}, "x": {"type": "number"}, "o": {"type": "object"}}}}},
        {"type": "function", "function": {"name": "ping"}}])")
                                                                              .as_array()));
}

// All texts that mean something to some family.
const std::vector<std::string>& marks() {
  static const std::vector<std::string> kMarks = [] {
    std::vector<std::string> out{"ping",
                                 "get_weather",
                                 "city",
                                 "days",
                                 "\"name\"",
                                 "\"arguments\"",
                                 "{\"name\": \"ping\", \"arguments\": {}}",
                                 "<function=ping>",
                                 "</function>",
                                 "<parameter=city>",
                                 "</parameter>",
                                 "ping()",
                                 "[ping(city='a')]",
                                 "```",
                                 "call:ping{",
                                 "to=functions.ping"};
    for (const auto tool : quire::tool_parser_names())
      for (const auto mark : quire::marks_of({std::string(tool), ""})) out.emplace_back(mark);
    for (const auto reasoning : quire::reasoning_parser_names())
      for (const auto mark : quire::marks_of({"", std::string(reasoning)})) out.emplace_back(mark);
    return out;
  }();
  return kMarks;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  const std::string& mark = marks()[seed / 4 % marks().size()];
  if (seed % 4 != 0 || size < kHeader || size + mark.size() > max_size)
    return LLVMFuzzerMutate(data, size, max_size);
  const std::size_t at = kHeader + seed / 1024 % (size - kHeader + 1);
  std::memmove(data + at + mark.size(), data + at, size - at);
  std::memcpy(data + at, mark.data(), mark.size());
  return size + mark.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeader) return 0;
  static const auto kNames = quire::tool_parser_names();
  static const auto kReasoning = quire::reasoning_parser_names();
  static const auto kTools = tools();
  quire::ReplyOptions options;
  options.dialect.tools = kNames[data[0] % kNames.size()];
  if ((data[1] & 1) != 0) options.dialect.reasoning = kReasoning[data[1] / 16 % kReasoning.size()];
  options.begins_inside = (data[1] & 2) != 0;
  options.calls = true;
  options.tools = kTools;
  if ((data[1] & 12) == 4) options.forced = quire::ReplyOptions::Forced::kList;
  if ((data[1] & 12) == 8) {
    options.forced = quire::ReplyOptions::Forced::kArguments;
    options.forced_function = "ping";
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + kHeader, size - kHeader);
  const Whole whole = read(options, text, {text.size() + 1});
  if (read(options, text, {1}) != whole) std::abort();
  const std::size_t a = 1 + data[2] % 16, b = 1 + data[2] / 16;
  if (read(options, text, {a, b, 1}) != whole) std::abort();
  return 0;
}
