#include "dialect/gemma_calls.h"

#include "dialect/json_text.h"
#include "dialect/python_literal.h"

namespace quire {
namespace {

using Match = TextReader::Match;
constexpr std::string_view kCall = "call:";
constexpr std::size_t kMaxNesting = 128;
constexpr std::size_t kMaxWordBytes = 64 << 10;

}  // namespace

bool GemmaCalls::step() {
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
    case Where::kText:
      return text_value();
    case Where::kWord:
      return word();
    case Where::kNext:
      return next();
    case Where::kBroken:
      return broken();
    case Where::kAfter:
      return after();
  }
  return false;
}

bool GemmaCalls::outside() {
  const auto found = reader().find(format_.begin);
  if (found.before > 0) text(reader().take(found.before));
  if (!found.found) return false;
  attempt(format_.begin.size());
  where_ = Where::kOpen;
  return true;
}

bool GemmaCalls::not_a_call() {
  give_back();
  where_ = Where::kOutside;
  return true;
}

bool GemmaCalls::open() {
  if (!skip_space()) return false;
  const Match here = reader().starts_with(kCall);
  if (here == Match::kMaybe) return false;
  if (here == Match::kNo) return not_a_call();
  attempt(kCall.size());
  where_ = Where::kName;
  return true;
}

bool GemmaCalls::name() {
  const auto found = reader().find("{");
  if (found.before > kMaxNameBytes) return not_a_call();
  if (!found.found) return false;
  std::string name(trimmed(reader().rest().substr(0, found.before)));
  if (!is_function_name(name)) return not_a_call();
  reader().take(found.before + 1);
  begin_call(std::move(name));
  arguments("{");
  open_.assign(1, '{');
  first_ = true;
  where_ = Where::kKey;
  return true;
}

void GemmaCalls::separate() {
  if (!first_) arguments(", ");
  first_ = false;
}

bool GemmaCalls::close(char c) {
  reader().take(1);
  arguments(std::string_view(&c, 1));
  open_.pop_back();
  first_ = false;
  forget_attempt();
  where_ = open_.empty() ? Where::kAfter : Where::kNext;
  return true;
}

bool GemmaCalls::key() {
  if (!skip_space()) return false;
  const std::string_view rest = reader().rest();
  if (rest.front() == '}') return close('}');
  const Match mark = reader().starts_with(format_.quote);
  if (mark == Match::kMaybe) return false;
  if (mark == Match::kYes) {
    reader().take(format_.quote.size());
    separate();
    arguments("\"");
    text_is_key_ = true;
    where_ = Where::kText;
    return true;
  }
  const std::size_t size = rest.find_first_of(":,{}[]");
  if (size == std::string_view::npos && rest.size() <= kMaxNameBytes) return false;
  if (size == std::string_view::npos || size > kMaxNameBytes || rest[size] != ':') {
    where_ = Where::kBroken;
    return true;
  }
  std::string_view name = trimmed(rest.substr(0, size));
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"')
    name = name.substr(1, name.size() - 2);
  separate();
  arguments(json_quoted(name));
  arguments(":");
  reader().take(size + 1);
  where_ = Where::kValue;
  return true;
}

bool GemmaCalls::value() {
  if (!skip_space()) return false;
  const char c = reader().rest().front();
  const bool in_list = open_.back() == '[';
  if (in_list && c == ']') return close(']');
  const Match mark = reader().starts_with(format_.quote);
  if (mark == Match::kMaybe) return false;
  if (in_list) separate();
  if (mark == Match::kYes) {
    reader().take(format_.quote.size());
    arguments("\"");
    text_is_key_ = false;
    where_ = Where::kText;
  } else if ((c == '{' || c == '[') && open_.size() < kMaxNesting) {
    reader().take(1);
    arguments(std::string_view(&c, 1));
    open_ += c;
    first_ = true;
    where_ = c == '{' ? Where::kKey : Where::kValue;
  } else {
    where_ = Where::kWord;
  }
  return true;
}

bool GemmaCalls::text_value() {
  const auto found = reader().find(format_.quote);
  if (found.before > 0) {
    std::string escaped;
    append_escaped(reader().take(found.before), escaped);
    arguments(escaped);
    return true;
  }
  if (!found.found) return false;
  reader().take(format_.quote.size());
  arguments("\"");
  if (!text_is_key_) {
    where_ = Where::kNext;
    return true;
  }
  arguments(":");
  where_ = Where::kValue;
  text_is_key_ = false;
  return true;
}

// Numbers, true, false, null; JSON strings; anything else is text.
bool GemmaCalls::word() {
  const std::string_view rest = reader().rest();
  std::size_t size = 0;
  bool in_string = false;
  for (; size < rest.size(); ++size) {
    const char c = rest[size];
    if (c == '"' && (size == 0 || rest[size - 1] != '\\')) in_string = !in_string;
    if (!in_string && (c == ',' || c == '}' || c == ']')) break;
  }
  if (size > kMaxWordBytes) {
    where_ = Where::kBroken;
    return true;
  }
  if (size == rest.size()) return false;
  arguments(value_as_json(trimmed(rest.substr(0, size)), ParamType::kUnknown));
  reader().take(size);
  where_ = Where::kNext;
  return true;
}

bool GemmaCalls::next() {
  if (!skip_space()) return false;
  const char c = reader().rest().front();
  const bool in_list = open_.back() == '[';
  if (c == ',') {
    reader().take(1);
    where_ = in_list ? Where::kValue : Where::kKey;
    return true;
  }
  if (c == (in_list ? ']' : '}')) return close(c);
  where_ = Where::kBroken;
  return true;
}

// What the model wrote, up to the call's end.
bool GemmaCalls::broken() {
  const auto found = reader().find(format_.end);
  if (found.before > 0) arguments(reader().take(found.before));
  if (!found.found) return false;
  where_ = Where::kAfter;
  return true;
}

bool GemmaCalls::after() {
  if (!skip_space()) return false;
  const Match end = take_mark({&format_.end, 1});
  if (end == Match::kNo) return not_a_call();
  return end == Match::kYes;
}

void GemmaCalls::cut() {
  switch (where_) {
    case Where::kKey:
    case Where::kValue:
    case Where::kText:
    case Where::kWord:
    case Where::kNext:
      forget_attempt();
      arguments(reader().take(reader().rest().size()));
      break;
    case Where::kAfter:
      forget_attempt();
      break;
    default:
      break;
  }
}

}  // namespace quire
