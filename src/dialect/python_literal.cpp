#include "dialect/python_literal.h"

#include <array>
#include <charconv>

#include "dialect/json_text.h"
#include "dialect/text_reader.h"

namespace quire {
namespace {

constexpr int kMaxDepth = 64;

void append_code_point(std::uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool read_all() {
    if (!value(0)) return false;
    skip_space();
    return text_.empty();
  }
  std::string take() { return std::move(out_); }

 private:
  void skip_space() {
    while (!text_.empty() && is_space(text_.front())) text_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool value(int depth) {
    skip_space();
    if (text_.empty() || depth > kMaxDepth) return false;
    const char c = text_.front();
    if (c == '"' || c == '\'') return string();
    if (c == '[') return list(depth, ']');
    if (c == '(') return list(depth, ')');
    if (c == '{') return dict(depth);
    return word() || number();
  }

  bool list(int depth, char close) {
    text_.remove_prefix(1);
    out_ += '[';
    for (bool first = true; !accept(close); first = false) {
      if (!first) {
        if (!accept(',')) return false;
        if (accept(close)) break;  // a comma at the end
        out_ += ", ";
      }
      if (!value(depth + 1)) return false;
    }
    out_ += ']';
    return true;
  }

  bool dict(int depth) {
    text_.remove_prefix(1);
    out_ += '{';
    for (bool first = true; !accept('}'); first = false) {
      if (!first) {
        if (!accept(',')) return false;
        if (accept('}')) break;
        out_ += ", ";
      }
      skip_space();
      if (text_.empty() || (text_.front() != '"' && text_.front() != '\'')) return false;
      if (!string() || !accept(':')) return false;
      out_ += ": ";
      if (!value(depth + 1)) return false;
    }
    out_ += '}';
    return true;
  }

  bool word() {
    static constexpr std::array<std::array<std::string_view, 2>, 6> kWords{{{"True", "true"},
                                                                            {"False", "false"},
                                                                            {"None", "null"},
                                                                            {"true", "true"},
                                                                            {"false", "false"},
                                                                            {"null", "null"}}};
    for (const auto& [python, json] : kWords) {
      if (!text_.starts_with(python)) continue;
      text_.remove_prefix(python.size());
      out_ += json;
      return true;
    }
    return false;
  }

  // As JSON wants it: no plus sign, a digit on both sides of the point.
  bool number() {
    std::size_t size = 0;
    while (size < text_.size() &&
           std::string_view("0123456789+-.eE").find(text_[size]) != std::string_view::npos)
      ++size;
    std::string digits(text_.substr(0, size));
    if (digits.starts_with('+')) digits.erase(0, 1);
    const std::size_t first = digits.starts_with('-') ? 1 : 0;
    if (digits.substr(first).starts_with('.')) digits.insert(first, 1, '0');
    if (digits.ends_with('.')) digits += '0';
    if (!is_json(digits)) return false;
    text_.remove_prefix(size);
    out_ += digits;
    return true;
  }

  bool string() {
    const char quote = text_.front();
    text_.remove_prefix(1);
    std::string value;
    while (!text_.empty() && text_.front() != quote) {
      const char c = text_.front();
      text_.remove_prefix(1);
      if (c != '\\') {
        value += c;
      } else if (!escape(value)) {
        return false;
      }
    }
    if (text_.empty()) return false;
    text_.remove_prefix(1);
    out_ += json_quoted(value);
    return true;
  }

  bool escape(std::string& value) {
    if (text_.empty()) return false;
    const char c = text_.front();
    text_.remove_prefix(1);
    switch (c) {
      case 'n':
        value += '\n';
        return true;
      case 't':
        value += '\t';
        return true;
      case 'r':
        value += '\r';
        return true;
      case 'b':
        value += '\b';
        return true;
      case 'f':
        value += '\f';
        return true;
      case '\n':
        return true;  // the line goes on
      case '\\':
      case '\'':
      case '"':
      case '/':
        value += c;
        return true;
      case 'x':
        return code_point(2, value);
      case 'u':
        return code_point(4, value);
      case 'U':
        return code_point(8, value);
      default:
        value += '\\';
        value += c;
        return true;
    }
  }

  bool hex(std::size_t digits, std::uint32_t& code) {
    if (text_.size() < digits) return false;
    const char* end = text_.data() + digits;
    if (std::from_chars(text_.data(), end, code, 16).ptr != end) return false;
    text_.remove_prefix(digits);
    return true;
  }
  // Two halves of a pair (as JSON writes characters over U+FFFF) are one character; a lone half
  // none.
  bool code_point(std::size_t digits, std::string& value) {
    std::uint32_t code = 0;
    if (!hex(digits, code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && text_.starts_with("\\u")) {
      text_.remove_prefix(2);
      std::uint32_t low = 0;
      if (!hex(4, low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    append_code_point(code, value);
    return true;
  }

  std::string_view text_;
  std::string out_;
};

}  // namespace

std::optional<std::string> python_to_json(std::string_view text) {
  Reader reader(text);
  if (!reader.read_all()) return std::nullopt;
  return reader.take();
}

}  // namespace quire
