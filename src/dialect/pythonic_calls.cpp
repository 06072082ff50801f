#include "dialect/pythonic_calls.h"

#include "dialect/json_text.h"
#include "dialect/python_literal.h"

namespace quire {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}
std::size_t word_size(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && is_word(text[n])) ++n;
  return n;
}

}  // namespace

PythonicCalls::PythonicCalls(PythonicFormat format, std::shared_ptr<const ToolSet> tools)
    : ToolParser(std::move(tools)), format_(std::move(format)), outside_marks_(format_.begins) {
  if (format_.bare) outside_marks_.push_back("[");
}

bool PythonicCalls::step() {
  switch (where_) {
    case Where::kOutside:
      return outside();
    case Where::kOpen:
      return open();
    case Where::kName:
      return name();
    case Where::kKey:
      return key();
    case Where::kValue:
      return value();
    case Where::kNext:
      return next();
    case Where::kAfter:
      return after();
  }
  return false;
}

bool PythonicCalls::outside() {
  const auto found = reader().find(outside_marks_);
  if (found.before > 0) text(reader().take(found.before));
  if (!found.found) return false;
  marked_ = found.mark < format_.begins.size();
  if (!marked_ && !line_is_blank()) {
    text(reader().take(1));
    return true;
  }
  attempt(outside_marks_[found.mark].size());
  in_list_ = !marked_;
  where_ = marked_ ? Where::kOpen : Where::kName;
  return true;
}

bool PythonicCalls::not_a_call() {
  give_back();
  where_ = Where::kOutside;
  return true;
}

bool PythonicCalls::open() {
  if (!skip_space()) return false;
  in_list_ = reader().rest().front() == '[';
  if (in_list_) attempt(1);
  where_ = Where::kName;
  return true;
}

// f(
bool PythonicCalls::name() {
  if (!skip_space()) return false;
  const std::string_view rest = reader().rest();
  const std::size_t size = word_size(rest);
  if (size == 0 || size > kMaxNameBytes) return not_a_call();
  if (size == rest.size()) return false;
  if (rest[size] != '(') return not_a_call();
  function_ = rest.substr(0, size);
  if (!marked_ && !tools().has(function_)) return not_a_call();
  attempt(size + 1);
  begun_ = false;
  where_ = Where::kKey;
  return true;
}

void PythonicCalls::ensure_call() {
  if (!begun_) begin_call(function_);
  begun_ = true;
  forget_attempt();
}

// key=, or the call's end
bool PythonicCalls::key() {
  if (!skip_space()) return false;
  const std::string_view rest = reader().rest();
  if (rest.front() == ')') {
    ensure_call();
    reader().take(1);
    end_parameters();
    where_ = Where::kNext;
    return true;
  }
  const std::size_t size = word_size(rest);
  if (size == 0 || size > kMaxNameBytes) return not_a_call();
  std::size_t equals = size;
  while (equals < rest.size() && is_space(rest[equals])) ++equals;
  if (equals == rest.size()) return false;
  if (rest[equals] != '=') return not_a_call();
  key_ = rest.substr(0, size);
  attempt(equals + 1);
  seen_ = 0;
  depth_ = 0;
  quote_ = 0;
  escaped_ = false;
  where_ = Where::kValue;
  return true;
}

bool PythonicCalls::value_end(std::size_t* size) {
  const std::string_view rest = reader().rest();
  for (; seen_ < rest.size(); ++seen_) {
    const char c = rest[seen_];
    if (quote_ != 0) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == quote_) {
        quote_ = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote_ = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth_;
    } else if (depth_ > 0 && (c == ')' || c == ']' || c == '}')) {
      --depth_;
    } else if (depth_ == 0 && (c == ')' || c == ',' || c == ']' || c == '}')) {
      *size = seen_;
      return true;
    }
  }
  return false;
}

bool PythonicCalls::value() {
  std::size_t size = 0;
  if (!value_end(&size)) return false;
  const std::string_view rest = reader().rest();
  const auto json = python_to_json(trimmed(rest.substr(0, size)));
  if (!json || (rest[size] != ',' && rest[size] != ')')) return not_a_call();
  ensure_call();
  begin_parameter(key_);
  arguments(*json);
  reader().take(size + (rest[size] == ',' ? 1 : 0));
  where_ = Where::kKey;
  return true;
}

// After a call: another one, the list's end, or text.
bool PythonicCalls::next() {
  if (!skip_space()) return false;
  const char c = reader().rest().front();
  if (in_list_ && c == ',') {
    attempt(1);
    where_ = Where::kName;
  } else if (in_list_ && c == ']') {
    reader().take(1);
    forget_attempt();
    where_ = Where::kAfter;
  } else if (!in_list_ && marked_ && is_word(c)) {
    where_ = Where::kName;
  } else {
    where_ = Where::kAfter;
  }
  return true;
}

bool PythonicCalls::after() {
  if (!skip_space()) return false;
  const TextReader::Match end = take_mark(format_.after);
  if (end == TextReader::Match::kNo) return not_a_call();
  return end == TextReader::Match::kYes;
}

void PythonicCalls::cut() {
  if (where_ == Where::kNext || where_ == Where::kAfter) return forget_attempt();
  if (where_ != Where::kKey && where_ != Where::kValue) return;
  ensure_call();
  if (where_ == Where::kValue) {
    begin_parameter(key_);
    arguments(trimmed(reader().rest()));
  }
  reader().take(reader().rest().size());
}

}  // namespace quire
