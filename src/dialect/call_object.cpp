#include "dialect/call_object.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>

#include "dialect/json_text.h"
#include "dialect/text_reader.h"

namespace quire {
namespace {

constexpr std::size_t kMaxKeyBytes = 256;

// A whole JSON string, decoded.
std::optional<std::string> decoded(const std::string& text) {
  boost::system::error_code error;
  const auto value = boost::json::parse(text, error);
  if (error || !value.is_string()) return std::nullopt;
  return std::string(value.get_string());
}

bool is_known(std::string_view key) {
  static constexpr std::array<std::string_view, 8> kKeys{
      "name", "function", "arguments", "parameters", "type", "id", "tool_name", "tool_call_id"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

}  // namespace

CallObject::State CallObject::feed(char c) {
  if (where_ == Where::kValue) return value_byte(c);
  if (where_ == Where::kKeyText) {
    const bool bad = scanner_.feed(c) == JsonScanner::State::kBad || key_.size() > kMaxKeyBytes;
    append_json_byte(c, true, key_);
    if (bad) return State::kBad;
    return c == '"' && !scanner_.in_string() ? end_key() : State::kGoing;
  }
  if (is_space(c)) return State::kGoing;
  switch (where_) {
    case Where::kOpen:
      if (c != '{') return State::kBad;
      ++depth_;
      where_ = Where::kFirstKey;
      return State::kGoing;
    case Where::kFirstKey:
    case Where::kKey:
      if (c == '}' && where_ == Where::kFirstKey) break;
      if (c != '"') return State::kBad;
      key_ = c;
      scanner_ = JsonScanner();
      scanner_.feed(c);
      where_ = Where::kKeyText;
      return State::kGoing;
    case Where::kColon:
      if (c != ':') return State::kBad;
      scanner_ = JsonScanner();
      where_ = Where::kValue;
      return State::kGoing;
    default:  // kAfter
      if (c == ',') {
        where_ = Where::kKey;
        return State::kGoing;
      }
      if (c != '}') return State::kBad;
      break;
  }
  where_ = Where::kAfter;
  if (--depth_ > 0) return State::kGoing;
  if (!arguments_begun_) arguments_ = "{}";
  return State::kDone;
}

CallObject::State CallObject::end_key() {
  const auto key = decoded(key_);
  if (!key || (known_keys_only_ && !is_known(*key))) return State::kBad;
  may_open_ = *key == "function" && depth_ == 1;
  const bool name = *key == "name" || *key == "function" || *key == "tool_name";
  const bool arguments = *key == "arguments" || *key == "parameters";
  use_ = name && !name_                   ? Use::kName
         : arguments && !arguments_begun_ ? Use::kArguments
                                          : Use::kSkip;
  value_.clear();
  where_ = Where::kColon;
  return State::kGoing;
}

// The first byte of a value decides what it is.
CallObject::State CallObject::begin_value(char c) {
  if (c == '{' && may_open_) {
    ++depth_;
    where_ = Where::kFirstKey;
    return State::kGoing;
  }
  if (use_ == Use::kName && c != '"') return State::kBad;
  if (use_ == Use::kArguments) {
    if (c != '{' && c != '"' && c != 'n') return State::kBad;
    if (c == '{') arguments_begun_ = true;
  }
  keep_value_ = use_ == Use::kName || (use_ == Use::kArguments && c != '{');
  return State::kGoing;
}

CallObject::State CallObject::value_byte(char c) {
  if (!scanner_.begun()) {
    if (is_space(c)) return State::kGoing;
    const State state = begin_value(c);
    if (state == State::kBad || where_ != Where::kValue) return state;
  }
  const bool in_string = scanner_.in_string();
  const auto state = scanner_.feed(c);
  if (state == JsonScanner::State::kBad) return State::kBad;
  if (state == JsonScanner::State::kDoneBefore) {
    const State ended = end_value();
    return ended == State::kGoing ? feed(c) : ended;
  }
  if (keep_value_) append_json_byte(c, in_string, value_);
  if (use_ == Use::kArguments && !keep_value_) append_json_byte(c, in_string, arguments_);
  return state == JsonScanner::State::kDone ? end_value() : State::kGoing;
}

CallObject::State CallObject::end_value() {
  where_ = Where::kAfter;
  if (use_ == Use::kName) {
    auto name = decoded(value_);
    if (!name || name->empty()) return State::kBad;
    name_ = std::move(*name);
  } else if (use_ == Use::kArguments && keep_value_) {
    if (value_ == "null") {
      arguments_ = "{}";
    } else {
      auto text = decoded(value_);
      if (!text) return State::kBad;
      arguments_ = text->empty() ? "{}" : std::move(*text);
    }
    arguments_begun_ = true;
  }
  return State::kGoing;
}

std::string CallObject::cut_arguments() const {
  if (use_ != Use::kArguments || !keep_value_ || where_ != Where::kValue) return arguments_;
  for (std::string text = value_; !text.empty(); text.pop_back()) {
    if (const auto out = decoded(text + '"')) return *out;
    if (value_.size() - text.size() > 12) break;  // longer than a torn escape
  }
  return {};
}

}  // namespace quire
