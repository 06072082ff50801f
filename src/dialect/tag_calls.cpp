#include "dialect/tag_calls.h"

#include "dialect/json_text.h"

namespace quire {
namespace {

using Match = TextReader::Match;

// name="f" string="true" -> f; f -> f
std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  const auto open = text.find_first_of("\"'");
  if (open == std::string_view::npos) return text;
  const auto close = text.find(text[open], open + 1);
  if (close == std::string_view::npos) return text;
  return text.substr(open + 1, close - open - 1);
}

}  // namespace

TagCalls::TagCalls(TagFormat format, std::shared_ptr<const ToolSet> tools)
    : ToolParser(std::move(tools)), format_(std::move(format)), outside_marks_{format_.begin} {
  if (!format_.call_begin.empty()) outside_marks_.push_back(format_.call_begin);
}

bool TagCalls::step() {
  switch (where_) {
    case Where::kOutside:
      return outside();
    case Where::kOpen:
      return open();
    case Where::kName:
      return name();
    case Where::kParams:
      return params();
    case Where::kKey:
      return key();
    case Where::kValueBegin:
      return value_begin();
    case Where::kText:
      return text_value();
    case Where::kValue:
      return other_value();
    case Where::kAfter:
      return after();
  }
  return false;
}

bool TagCalls::outside() {
  const auto found = reader().find(outside_marks_);
  if (found.before > 0) text(reader().take(found.before));
  if (!found.found) return false;
  attempt(outside_marks_[found.mark].size());
  where_ = found.mark == 0 && !format_.call_begin.empty() ? Where::kOpen : Where::kName;
  return true;
}

bool TagCalls::not_a_call() {
  give_back();
  where_ = Where::kOutside;
  return true;
}

bool TagCalls::open() {
  if (!skip_space()) return false;
  const Match here = reader().starts_with(format_.call_begin);
  if (here == Match::kMaybe) return false;
  if (here == Match::kNo) return not_a_call();
  attempt(format_.call_begin.size());
  where_ = Where::kName;
  return true;
}

bool TagCalls::name() {
  if (format_.call_begin.empty() && !skip_space()) return false;
  const auto found = reader().find(format_.name_ends);
  if (found.before > kMaxNameBytes) return not_a_call();
  if (!found.found) return false;
  std::string function(unquoted(reader().rest().substr(0, found.before)));
  if (!is_function_name(function)) return not_a_call();
  reader().take(found.before + (format_.take_name_end ? format_.name_ends[found.mark].size() : 0));
  function_ = function;
  begin_call(std::move(function));
  where_ = Where::kParams;
  return true;
}

void TagCalls::end_call() {
  forget_attempt();
  end_parameters();
  where_ = Where::kAfter;
}

// Between parameters. What is neither a key nor an end is text again.
bool TagCalls::params() {
  if (!skip_space()) return false;
  const std::string_view call_end = format_.call_end.empty() ? format_.end : format_.call_end;
  const Match key = reader().starts_with(format_.key_begin);
  const Match end = reader().starts_with(call_end);
  const Match outer = reader().starts_with(format_.end);
  if (key == Match::kYes) {
    forget_attempt();
    reader().take(format_.key_begin.size());
    where_ = Where::kKey;
  } else if (end == Match::kYes) {
    reader().take(call_end.size());
    end_call();
  } else if (key == Match::kMaybe || end == Match::kMaybe || outer == Match::kMaybe) {
    return false;
  } else {
    end_call();
  }
  return true;
}

bool TagCalls::key() {
  const auto found = reader().find(format_.key_end);
  if (!found.found && found.before <= kMaxNameBytes) return false;
  if (!found.found || found.before > kMaxNameBytes) {  // no key: the call ends before it
    end_call();
    text(format_.key_begin);
    return true;
  }
  key_ = unquoted(reader().rest().substr(0, found.before));
  reader().take(found.before + format_.key_end.size());
  type_ = tools().type_of(function_, key_);
  where_ = Where::kValueBegin;
  return true;
}

bool TagCalls::value_begin() {
  if (!format_.value_begin.empty()) {
    if (!skip_space()) return false;
    const Match here = reader().starts_with(format_.value_begin);
    if (here == Match::kMaybe) return false;
    forget_attempt();
    if (here == Match::kYes) reader().take(format_.value_begin.size());
  }
  value_started_ = false;
  if (type_ == ParamType::kString) {
    begin_parameter(key_);
    arguments("\"");
    where_ = Where::kText;
  } else {
    where_ = Where::kValue;
  }
  return true;
}

// A line break after the opening tag and one before the closing tag are not part of the value.
bool TagCalls::text_value() {
  if (!value_started_) {
    if (reader().empty()) return false;
    if (reader().rest().front() == '\n') reader().take(1);
    value_started_ = true;
    return true;
  }
  const auto found = reader().find(format_.value_end);
  std::size_t size = found.before;
  const bool line_break = size > 0 && reader().rest()[size - 1] == '\n';
  if (line_break) --size;
  if (size > 0) {
    std::string escaped;
    append_escaped(reader().take(size), escaped);
    arguments(escaped);
    return true;
  }
  if (!found.found) return false;
  reader().take((line_break ? 1 : 0) + format_.value_end.size());
  arguments("\"");
  where_ = Where::kParams;
  return true;
}

bool TagCalls::other_value() {
  const auto found = reader().find(format_.value_end);
  if (!found.found) return false;
  std::string_view value = reader().rest().substr(0, found.before);
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  begin_parameter(key_);
  arguments(value_as_json(value, type_));
  reader().take(found.before + format_.value_end.size());
  where_ = Where::kParams;
  return true;
}

bool TagCalls::after() {
  if (!skip_space()) return false;
  const Match end = take_mark({&format_.end, 1});
  if (end == Match::kYes) return true;
  const bool nested = !format_.call_begin.empty();
  const Match next = nested ? reader().starts_with(format_.call_begin) : Match::kNo;
  if (next == Match::kYes) {
    forget_attempt();
    attempt(format_.call_begin.size());
    where_ = Where::kName;
    return true;
  }
  if (end == Match::kMaybe || next == Match::kMaybe) return false;
  return not_a_call();
}

void TagCalls::cut() {
  if (where_ == Where::kParams || where_ == Where::kAfter) forget_attempt();
  if (where_ == Where::kValue) {
    if (reader().empty()) return;
    begin_parameter(key_);
    arguments(trimmed(reader().take(reader().rest().size())));
  } else if (where_ == Where::kText || where_ == Where::kParams || where_ == Where::kKey ||
             where_ == Where::kValueBegin) {
    // In text the line break that was held back, in a call a torn tag.
    reader().take(reader().rest().size());
  }
}

}  // namespace quire
