#include "dialect/tool_parser.h"

#include <algorithm>

#include "dialect/json_text.h"

namespace quire {

void ToolParser::run(Parsed* out) {
  out_ = out;
  while (step()) {
  }
}

void ToolParser::push(std::string_view text, Parsed* out) {
  reader_.append(text);
  run(out);
  out_ = nullptr;
}

void ToolParser::finish(Parsed* out) {
  reader_.end();
  run(out);
  cut();
  give_back();
  text(reader_.take(reader_.rest().size()));
  if (num_calls_ == 0) out->content += held_space_;
  out_ = nullptr;
}

void ToolParser::text(std::string_view content) {
  for (const char c : content) {
    if (c == '\n') {
      line_blank_ = true;
    } else if (!is_space(c)) {
      line_blank_ = false;
    }
  }
  if (fresh_) {
    const auto* first = std::find_if_not(content.begin(), content.end(), is_space);
    const auto spaces = static_cast<std::size_t>(first - content.begin());
    held_space_ += content.substr(0, spaces);
    content.remove_prefix(spaces);
    if (content.empty()) return;
    fresh_ = false;
    out_->content += held_space_;
    held_space_.clear();
  }
  out_->content += content;
}

void ToolParser::begin_call(std::string name) {
  attempt_.clear();
  held_space_.clear();
  fresh_ = true;
  line_blank_ = true;
  any_param_ = false;
  out_->begin_call(num_calls_++, std::move(name));
}

void ToolParser::arguments(std::string_view json) { out_->add_arguments(num_calls_ - 1, json); }

void ToolParser::begin_parameter(std::string_view key) {
  arguments(any_param_ ? ", " : "{");
  arguments(json_quoted(key));
  arguments(": ");
  any_param_ = true;
}

std::string_view ToolParser::attempt(std::size_t n) {
  const std::string_view taken = reader_.take(n);
  attempt_ += taken;
  return taken;
}

void ToolParser::give_back() {
  const std::string back = std::exchange(attempt_, {});
  text(back);
}

TextReader::Match ToolParser::take_mark(std::span<const std::string_view> marks) {
  bool maybe = false;
  for (const std::string_view mark : marks) {
    const auto here = reader_.starts_with(mark);
    maybe |= here == TextReader::Match::kMaybe;
    if (here != TextReader::Match::kYes) continue;
    reader_.take(mark.size());
    forget_attempt();
    return TextReader::Match::kYes;
  }
  return maybe ? TextReader::Match::kMaybe : TextReader::Match::kNo;
}

bool ToolParser::skip_space() {
  std::size_t n = 0;
  const std::string_view rest = reader_.rest();
  while (n < rest.size() && is_space(rest[n])) ++n;
  if (n > 0) attempt(n);
  return !reader_.empty();
}

bool is_function_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("_-.:/").find(c) != std::string_view::npos;
         });
}

}  // namespace quire
