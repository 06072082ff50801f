// Typed look-ups in a JSON object of a model folder. A key that is absent or null gives nullopt; a
// key of a wrong type is an error that names the file, the key, what it holds and what it should
// hold.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

// Parses text, which must be one JSON object nested at most 32 deep. name: for messages. NaN,
// Infinity and -Infinity, which Python writes as they are, come out as newer files spell them:
// {"__float__": "Infinity"}.
Result<boost::json::object> parse_json_object(std::string_view text, std::string_view name);

// Of valid JSON: no object has a key twice, of which parsing would keep the last.
Status check_unique_keys(std::string_view text, std::string_view name);

// Lays `over` over *base: its values replace, but objects on both sides merge. null stays as null.
void merge_json(const boost::json::object& over, boost::json::object* base);

class JsonFields {
 public:
  // Both must outlive this.
  JsonFields(const boost::json::object& object, std::string_view name)
      : object_(object), name_(name) {}

  Result<std::optional<std::int64_t>> get_int(std::string_view key) const;  // 4096.0 is 4096
  Result<std::optional<double>> get_number(std::string_view key) const;     // finite
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string>> get_string(std::string_view key) const;
  // An integer or a list of integers; empty when absent.
  Result<std::vector<std::int64_t>> get_ints(std::string_view key) const;
  // nullptr when absent or null.
  Result<const boost::json::object*> get_object(std::string_view key) const;
  // The value, or nullptr when absent or null.
  const boost::json::value* find(std::string_view key) const;
  // Whether the key stands in the object, even as null.
  bool has(std::string_view key) const;
  std::string_view name() const { return name_; }

 private:
  tl::unexpected<Error> wrong_type(std::string_view key, std::string_view wanted) const;
  const boost::json::object& object_;
  std::string_view name_;
};

}  // namespace quire
