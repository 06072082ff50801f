// A whole answer out of any pieces of a text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "dialect/dialects.h"

namespace quire {

struct Call {
  std::string name, arguments;
  bool operator==(const Call&) const = default;
};
inline void PrintTo(const Call& call, std::ostream* out) { *out << call.name << call.arguments; }
inline const Call kParis{"get_weather", R"({"city": "Paris"})"};
inline const Call kPing{"ping", "{}"};

struct Whole {
  std::string reasoning, content;
  std::vector<Call> calls;
  bool operator==(const Whole&) const = default;
};
inline void PrintTo(const Whole& whole, std::ostream* out) {
  *out << "reasoning \"" << whole.reasoning << "\" content \"" << whole.content << "\" calls";
  for (const auto& call : whole.calls) *out << " " << call.name << call.arguments;
}

inline std::shared_ptr<const ToolSet> test_tools() {
  static const auto kTools =
      std::make_shared<const ToolSet>(ToolSet::from_json(boost::json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
     "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                    "note": {"type": ["string", "null"]}, "flags": {"type": "array"}}}}},
    {"type": "function", "function": {"name": "ping"}}])")
                                                             .as_array()));
  return kTools;
}

inline ReplyOptions options_of(std::string tool_parser, std::string reasoning = {},
                               bool inside = false) {
  ReplyOptions out;
  out.dialect = {std::move(tool_parser), std::move(reasoning)};
  out.calls = true;
  out.tools = test_tools();
  out.begins_inside = inside;
  return out;
}

// Adds a piece and checks how calls come: numbered in order, each name once and first.
inline void add(const Parsed& piece, Whole* whole) {
  whole->reasoning += piece.reasoning;
  whole->content += piece.content;
  for (const auto& call : piece.calls) {
    const auto index = static_cast<std::size_t>(call.index);
    if (!call.name.empty()) {
      ASSERT_EQ(index, whole->calls.size());
      whole->calls.push_back({call.name, {}});
    }
    ASSERT_EQ(index + 1, whole->calls.size());
    whole->calls.back().arguments += call.arguments;
  }
}

// `cuts` are the ends of the pieces.
inline Whole read(const ReplyOptions& options, std::string_view text,
                  const std::vector<std::size_t>& cuts) {
  const auto parser = make_reply_parser(options);
  Whole out;
  std::size_t at = 0;
  for (const std::size_t cut : cuts) {
    Parsed piece;
    parser->push(text.substr(at, cut - at), &piece);
    add(piece, &out);
    at = cut;
  }
  Parsed last;
  parser->push(text.substr(at), &last);
  parser->finish(&last);
  add(last, &out);
  return out;
}
inline Whole read(const ReplyOptions& options, std::string_view text) {
  return read(options, text, {});
}

inline std::vector<std::size_t> each_byte(std::string_view text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 1; i < text.size(); ++i) out.push_back(i);
  return out;
}

// Any way to cut gives the same.
inline void check_cuts(const ReplyOptions& options, std::string_view text) {
  const Whole whole = read(options, text);
  ASSERT_EQ(read(options, text, each_byte(text)), whole) << options.dialect.tools << "\n" << text;
  for (std::size_t cut = 1; cut < text.size(); ++cut)
    ASSERT_EQ(read(options, text, {cut}), whole) << options.dialect.tools << "\n" << text;
}

}  // namespace quire
