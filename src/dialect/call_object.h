// Reads one call written as a JSON object, byte by byte: {"name": "f", "arguments": {...}}, in any
// order of keys, "parameters" for "arguments", {"type": "function", "function": {...}} around it.
// Arguments go out as they come once the name is known; given as the text of JSON (a string) they
// go out when they are whole.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "dialect/json_scanner.h"

namespace quire {

class CallObject {
 public:
  // known_keys_only: any other key means that this is no call.
  explicit CallObject(bool known_keys_only = false) : known_keys_only_(known_keys_only) {}
  enum class State { kGoing, kDone, kBad };
  State feed(char c);

  // Known so far; the name only when it is whole.
  const std::optional<std::string>& name() const { return name_; }
  // True once arguments of a known function have begun: this is a call.
  bool begun() const { return name_ && arguments_begun_; }
  // What has come of the arguments since the last time.
  std::string take_arguments() { return std::exchange(arguments_, {}); }
  // The text ended before begun(): what there is of arguments that were to be shown when whole.
  std::string cut_arguments() const;

 private:
  enum class Where { kOpen, kFirstKey, kKey, kKeyText, kColon, kValue, kAfter };
  enum class Use { kSkip, kName, kArguments };
  State begin_value(char c);
  State value_byte(char c);
  State end_value();
  State end_key();

  bool known_keys_only_;
  Where where_ = Where::kOpen;
  Use use_ = Use::kSkip;
  int depth_ = 0;  // 2: inside "function"
  JsonScanner scanner_;
  std::string key_, value_;  // key being read; text of a value that is not shown as it comes
  bool may_open_ = false;    // this value may be the object around the call
  bool keep_value_ = false;
  std::optional<std::string> name_;
  bool arguments_begun_ = false;
  std::string arguments_;
};

}  // namespace quire
