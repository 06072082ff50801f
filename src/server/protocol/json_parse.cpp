#include "server/protocol/json_parse.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value_stack.hpp>
#include <cmath>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/check.h"

namespace quire {
namespace {

namespace json = boost::json;
using json::error_code;

// Builds a value as Boost.JSON's own handler does, and refuses what that lets pass: a key twice in
// one object (readers disagree on which one counts) and numbers too large for a double. Member
// names are the library's.
class StrictHandler {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t n, error_code&) {
    stack_.push_array(n);
    return true;
  }
  bool on_object_begin(error_code&) {
    keys_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t n, error_code&) {
    keys_.pop_back();
    stack_.push_object(n);
    return true;
  }
  bool on_key_part(json::string_view s, std::size_t, error_code&) {
    key_.append(s.data(), s.size());
    stack_.push_chars(s);
    return true;
  }
  bool on_key(json::string_view s, std::size_t, error_code& error) {
    key_.append(s.data(), s.size());
    stack_.push_key(s);
    if (!keys_.back().insert(key_).second) {
      problem_ = "the key \"" + key_ + "\" stands twice in one object";
      error = json::error::not_exact;
      return false;
    }
    key_.clear();
    return true;
  }
  bool on_string_part(json::string_view s, std::size_t, error_code&) {
    stack_.push_chars(s);
    return true;
  }
  bool on_string(json::string_view s, std::size_t, error_code&) {
    stack_.push_string(s);
    return true;
  }
  bool on_number_part(json::string_view, error_code&) { return true; }
  bool on_int64(std::int64_t v, json::string_view, error_code&) {
    stack_.push_int64(v);
    return true;
  }
  bool on_uint64(std::uint64_t v, json::string_view, error_code&) {
    stack_.push_uint64(v);
    return true;
  }
  bool on_double(double v, json::string_view, error_code& error) {
    if (!std::isfinite(v)) {
      problem_ = "a number is too large";
      error = json::error::not_exact;
      return false;
    }
    stack_.push_double(v);
    return true;
  }
  bool on_bool(bool v, error_code&) {
    stack_.push_bool(v);
    return true;
  }
  bool on_null(error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(json::string_view, error_code&) { return true; }
  bool on_comment(json::string_view, error_code&) { return true; }

  json::value_stack stack_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects
  std::string key_;
  std::string problem_;
};

}  // namespace

json::value parse_checked(std::string_view text) {
  constexpr std::size_t kAnyDepth = 1024;  // what is put together of checked parts is deeper
  error_code error;
  auto out =
      json::parse(json::string_view(text.data(), text.size()), error, {}, {.max_depth = kAnyDepth});
  QUIRE_CHECK(!error, "JSON that was checked before: {}", error.message());
  return out;
}

Result<json::value> parse_json(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  json::basic_parser<StrictHandler> parser(options);
  StrictHandler& handler = parser.handler();
  handler.stack_.reset();
  error_code error;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), error);
  if (!error && used < text.size()) error = json::error::extra_data;
  if (!error) return handler.stack_.release();
  std::string problem = handler.problem_;
  if (problem.empty()) {
    problem =
        error == json::error::too_deep ? fmt::format("nested deeper than {} levels", kMaxJsonDepth)
        : error == json::error::incomplete ? (text.empty() ? "it is empty" : "it ends too early")
                                           : error.message();
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "the request body is not valid JSON: {} (at byte {} of {})", problem, used,
                    text.size());
}

std::string_view json_kind(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "a value";
}

}  // namespace quire
