#include "dialect/json_scanner.h"

#include "dialect/text_reader.h"

namespace quire {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

JsonScanner::State JsonScanner::feed(char c) {
  if (where_ >= Where::kMinus) return in_number(c);
  if (where_ >= Where::kString) return in_text(c);
  if (is_space(c)) return State::kGoing;
  begun_ = true;
  switch (where_) {
    case Where::kFirstElement:
      if (c == ']') return close(c);
      return begin_value(c);
    case Where::kFirstKey:
      if (c == '}') return close(c);
      [[fallthrough]];
    case Where::kKey:
      if (c != '"') return State::kBad;
      key_ = true;
      where_ = Where::kString;
      return State::kGoing;
    case Where::kColon:
      if (c != ':') return State::kBad;
      where_ = Where::kValue;
      return State::kGoing;
    case Where::kAfter:
      if (c != ',' || open_.empty()) return close(c);
      where_ = open_.back() == '{' ? Where::kKey : Where::kValue;
      return State::kGoing;
    default:
      return begin_value(c);
  }
}

JsonScanner::State JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() == kMaxDepth) return State::kBad;
    open_ += c;
    where_ = c == '{' ? Where::kFirstKey : Where::kFirstElement;
  } else if (c == '"') {
    key_ = false;
    where_ = Where::kString;
  } else if (c == 't' || c == 'f' || c == 'n') {
    literal_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    where_ = Where::kLiteral;
  } else if (c == '-') {
    where_ = Where::kMinus;
  } else if (is_digit(c)) {
    where_ = c == '0' ? Where::kZero : Where::kInteger;
  } else {
    return State::kBad;
  }
  return State::kGoing;
}

JsonScanner::State JsonScanner::end_value() {
  where_ = Where::kAfter;
  return open_.empty() ? State::kDone : State::kGoing;
}

JsonScanner::State JsonScanner::close(char c) {
  if (open_.empty() || c != (open_.back() == '{' ? '}' : ']')) return State::kBad;
  open_.pop_back();
  return end_value();
}

JsonScanner::State JsonScanner::in_text(char c) {
  switch (where_) {
    case Where::kEscape:
      if (c == 'u') {
        hex_digits_ = 0;
        where_ = Where::kHex;
        return State::kGoing;
      }
      where_ = Where::kString;
      return std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos ? State::kBad
                                                                              : State::kGoing;
    case Where::kHex:
      if (!is_hex(c)) return State::kBad;
      if (++hex_digits_ == 4) where_ = Where::kString;
      return State::kGoing;
    case Where::kLiteral:
      if (c != *literal_) return State::kBad;
      return *++literal_ == '\0' ? end_value() : State::kGoing;
    default:
      break;
  }
  if (c == '\\') {
    where_ = Where::kEscape;
  } else if (c == '"') {
    if (!key_) return end_value();
    where_ = Where::kColon;
  }
  return State::kGoing;
}

JsonScanner::State JsonScanner::in_number(char c) {
  const bool digit = is_digit(c);
  switch (where_) {
    case Where::kMinus:
      if (!digit) return State::kBad;
      where_ = c == '0' ? Where::kZero : Where::kInteger;
      return State::kGoing;
    case Where::kInteger:
      if (digit) return State::kGoing;
      [[fallthrough]];
    case Where::kZero:
      if (c == '.') {
        where_ = Where::kPoint;
        return State::kGoing;
      }
      break;
    case Where::kPoint:
      if (!digit) return State::kBad;
      where_ = Where::kFraction;
      return State::kGoing;
    case Where::kFraction:
      if (digit) return State::kGoing;
      break;
    case Where::kExponent:
      if (c == '+' || c == '-') {
        where_ = Where::kExponentSign;
        return State::kGoing;
      }
      [[fallthrough]];
    case Where::kExponentSign:
      if (!digit) return State::kBad;
      where_ = Where::kExponentDigits;
      return State::kGoing;
    default:  // kExponentDigits
      return digit ? State::kGoing : end_number(c);
  }
  if (c == 'e' || c == 'E') {
    where_ = Where::kExponent;
    return State::kGoing;
  }
  return end_number(c);
}

JsonScanner::State JsonScanner::end_number(char c) {
  where_ = Where::kAfter;
  if (open_.empty()) return State::kDoneBefore;
  return feed(c);
}

}  // namespace quire
