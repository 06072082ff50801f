#include "dialect/json_text.h"

#include <fmt/format.h>

#include "dialect/json_scanner.h"
#include "dialect/python_literal.h"
#include "dialect/text_reader.h"

namespace quire {

void append_escaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    append_json_byte(c, true, out);
  }
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  append_escaped(text, out);
  return out + '"';
}

bool is_json(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return false;
  JsonScanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (scanner.in_string() && static_cast<unsigned char>(text[i]) < 0x20) return false;
    const auto state = scanner.feed(text[i]);
    if (state == JsonScanner::State::kDone) return i + 1 == text.size();
    if (state != JsonScanner::State::kGoing) return false;
  }
  // Only a number has no end of its own.
  return scanner.feed(' ') == JsonScanner::State::kDoneBefore;
}

std::string value_as_json(std::string_view text, ParamType type) {
  if (type == ParamType::kString) return json_quoted(text);
  const std::string_view value = trimmed(text);
  if (type == ParamType::kStringOrNull)
    return value == "null" || value == "None" ? "null" : json_quoted(text);
  if (is_json(value)) return std::string(value);
  if (auto literal = python_to_json(value)) return *literal;
  return json_quoted(text);
}

void append_json_byte(char c, bool in_string, std::string& out) {
  if (!in_string || static_cast<unsigned char>(c) >= 0x20) {
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c == '\r') {
    out += "\\r";
  } else {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  }
}

}  // namespace quire
