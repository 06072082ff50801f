// A request type is a table of its fields: name, kind, range and the member that takes the value.
// Parsing, range checks and messages come from the table alone. Unknown fields are ignored; null
// means absent.
#pragma once

#include <boost/json/object.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "server/protocol/json_parse.h"

namespace quire {

enum class FieldKind {
  kBool,
  kInteger,
  kNumber,
  kString,
  kIntegers,
  kStrings,
  kObject,
  kAny,
  kNeutral
};

template <class Request>
struct Field {
  std::string_view name;
  FieldKind kind = FieldKind::kAny;
  double min = 0, max = 0;  // of numbers, and of each item of kIntegers; kStrings: of the count
  bool above_min = false;   // min itself is refused
  Status (*read)(Request& request, const boost::json::value& value, const Field& field) = nullptr;
};

// Checked scalars; `name` may be a path such as "stop[2]".
Result<bool> read_bool(const boost::json::value& value, std::string_view name);
Result<std::int64_t> read_integer(const boost::json::value& value, std::string_view name,
                                  double min, double max);
Result<double> read_number(const boost::json::value& value, std::string_view name, double min,
                           double max, bool above_min);
Result<std::string> read_string(const boost::json::value& value, std::string_view name);
Result<std::vector<std::int32_t>> read_integers(const boost::json::value& value,
                                                std::string_view name, double min, double max);
// A string, or a list of strings; none of them empty.
Result<std::vector<std::string>> read_strings(const boost::json::value& value,
                                              std::string_view name, std::size_t max_count);
// Values that ask for nothing: false, 0, "", [], {}, and those named. Others are refused as not
// supported.
Status check_neutral(const boost::json::value& value, std::string_view name,
                     std::string_view allowed);

template <auto Member>
struct MemberOf;
template <class R, class T, T R::*Member>
struct MemberOf<Member> {
  using Request = R;
  using Value = T;
};
template <auto Member>
using RequestOf = typename MemberOf<Member>::Request;

template <auto Member>
constexpr Field<RequestOf<Member>> bool_field(std::string_view name) {
  return {name,
          FieldKind::kBool,
          0,
          0,
          false,
          [](auto& request, const auto& value, const auto& field) -> Status {
            QUIRE_ASSIGN(request.*Member, read_bool(value, field.name));
            return {};
          }};
}
template <auto Member>
constexpr Field<RequestOf<Member>> integer_field(std::string_view name, double min, double max) {
  return {name,
          FieldKind::kInteger,
          min,
          max,
          false,
          [](auto& request, const auto& value, const auto& field) -> Status {
            QUIRE_ASSIGN(const auto number, read_integer(value, field.name, field.min, field.max));
            using Value = typename MemberOf<Member>::Value;
            if constexpr (std::is_arithmetic_v<Value>) {
              request.*Member = static_cast<Value>(number);
            } else {
              request.*Member = static_cast<typename Value::value_type>(number);
            }
            return {};
          }};
}
template <auto Member>
constexpr Field<RequestOf<Member>> number_field(std::string_view name, double min, double max,
                                                bool above_min = false) {
  return {name,
          FieldKind::kNumber,
          min,
          max,
          above_min,
          [](auto& request, const auto& value, const auto& field) -> Status {
            QUIRE_ASSIGN(request.*Member,
                         read_number(value, field.name, field.min, field.max, field.above_min));
            return {};
          }};
}
template <auto Member>
constexpr Field<RequestOf<Member>> string_field(std::string_view name) {
  return {name,
          FieldKind::kString,
          0,
          0,
          false,
          [](auto& request, const auto& value, const auto& field) -> Status {
            QUIRE_ASSIGN(request.*Member, read_string(value, field.name));
            return {};
          }};
}
template <auto Member>
constexpr Field<RequestOf<Member>> integers_field(std::string_view name, double min, double max) {
  return {name,
          FieldKind::kIntegers,
          min,
          max,
          false,
          [](auto& request, const auto& value, const auto& field) -> Status {
            QUIRE_ASSIGN(request.*Member, read_integers(value, field.name, field.min, field.max));
            return {};
          }};
}
template <auto Member>
constexpr Field<RequestOf<Member>> strings_field(std::string_view name, double max_count) {
  return {name,
          FieldKind::kStrings,
          0,
          max_count,
          false,
          [](auto& request, const auto& value, const auto& field) -> Status {
            QUIRE_ASSIGN(request.*Member,
                         read_strings(value, field.name, static_cast<std::size_t>(field.max)));
            return {};
          }};
}
// A field with a reader of its own.
template <class Request>
constexpr Field<Request> custom_field(std::string_view name,
                                      Status (*read)(Request&, const boost::json::value&,
                                                     const Field<Request>&)) {
  return {name, FieldKind::kAny, 0, 0, false, read};
}
// Known but not built: only values that change nothing pass. `allowed` names one more, e.g. "none".
template <class Request>
constexpr Field<Request> unsupported_field(std::string_view name) {
  return {name,
          FieldKind::kNeutral,
          0,
          0,
          false,
          [](Request&, const boost::json::value& value, const auto& field) -> Status {
            return check_neutral(value, field.name, {});
          }};
}

// Reads every field of the table that the object has.
template <class Request>
Status read_fields(const boost::json::object& object,
                   std::span<const Field<std::type_identity_t<Request>>> table, Request& request) {
  for (const auto& field : table) {
    const auto* value =
        object.if_contains(boost::json::string_view(field.name.data(), field.name.size()));
    if (value == nullptr || value->is_null()) continue;
    QUIRE_TRY(field.read(request, *value, field));
  }
  return {};
}

// Logs each name that stands in no table, once in the process's life.
void log_unknown_fields(const boost::json::object& object, std::span<const std::string_view> known);
template <class... Tables>
void note_unknown_fields(const boost::json::object& object, const Tables&... tables) {
  std::vector<std::string_view> known;
  (..., [&] {
    for (const auto& field : tables) known.push_back(field.name);
  }());
  log_unknown_fields(object, known);
}

// The body as an object, or a 400.
Result<boost::json::object> parse_object(std::string_view body);

}  // namespace quire
