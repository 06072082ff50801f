// Follows one JSON value byte by byte: is it still valid, is it whole? Knows nothing of its
// meaning. Line breaks and other control characters inside texts are let through (models write
// them); who copies the value escapes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

class JsonScanner {
 public:
  enum class State {
    kGoing,
    kDone,        // the value ended with this byte
    kDoneBefore,  // a number ended; this byte is not part of it
    kBad          // no JSON: this byte can't stand here
  };
  State feed(char c);
  bool in_string() const { return where_ == Where::kString || where_ == Where::kEscape; }
  bool begun() const { return begun_; }

 private:
  enum class Where : std::uint8_t {
    kValue,         // before a value
    kFirstElement,  // after [
    kFirstKey,      // after {
    kKey,           // after , in an object
    kColon,
    kAfter,  // a value inside a container is whole
    kString,
    kEscape,
    kHex,
    kLiteral,
    kMinus,  // numbers: after -, after 0, ...
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits
  };
  State begin_value(char c);
  State end_value();
  State close(char c);
  State in_text(char c);
  State in_number(char c);
  State end_number(char c);

  static constexpr std::size_t kMaxDepth = 128;
  Where where_ = Where::kValue;
  bool begun_ = false;
  bool key_ = false;          // the string being read is a key
  std::string open_;          // '{' and '['
  const char* literal_ = "";  // what is left of true, false, null
  int hex_digits_ = 0;
};

}  // namespace quire
