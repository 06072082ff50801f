// A request type is a table of its fields: name, kind, range and the member that takes the value.
// Parsing, range checks and messages come from the table alone. Unknown fields are ignored; null
// means absent. Each row also says who has the field, what its absence means and what it does:
//   number_field<&R::min_p>("min_p", 0, 1).is(kVllm | kLlamaCpp, "0", "Drops tokens ...")
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
#include "server/protocol/field_info.h"
#include "server/protocol/json_parse.h"

namespace quire {

inline constexpr double kMaxInt32 = 2147483647;
inline constexpr double kMaxInt64 = 9.3e18;  // beyond it a value is no integer of 64 bits anyway
inline constexpr double kAnyNumber = 1.7e308;

template <class Request>
struct Field : FieldInfo {
  Status (*read)(Request& request, const boost::json::value& value, const Field& field) = nullptr;

  constexpr Field is(unsigned who, std::string_view absent, std::string_view what) const {
    Field out = *this;
    out.origins = who;
    out.fallback = absent;
    out.note = what;
    return out;
  }
  constexpr Field items(std::size_t least, std::size_t most) const {
    Field out = *this;
    out.min_items = least;
    out.max_items = most;
    return out;
  }
  constexpr Field must() const {
    Field out = *this;
    out.required = true;
    return out;
  }
};

// Checked values; `name` may be a path such as "stop[2]".
Result<bool> read_bool(const boost::json::value& value, std::string_view name);
Result<std::int64_t> read_integer(const boost::json::value& value, std::string_view name,
                                  double min, double max);
Result<double> read_number(const boost::json::value& value, std::string_view name, double min,
                           double max, bool above_min);
Result<std::string> read_string(const boost::json::value& value, std::string_view name);
// These look at the limits of the field.
Result<std::string> read_text(const boost::json::value& value, const FieldInfo& field);
Result<std::string> read_choice(const boost::json::value& value, const FieldInfo& field);
Result<std::vector<std::int32_t>> read_integers(const boost::json::value& value,
                                                const FieldInfo& field);
// A string, or a list of strings; none of them empty.
Result<std::vector<std::string>> read_strings(const boost::json::value& value,
                                              const FieldInfo& field);
// Values that ask for nothing: false, 0, "", [], {}. Others are refused as not supported.
Status check_neutral(const boost::json::value& value, std::string_view name);
// For a field that is accepted and changes nothing: its kind is still checked.
Status check_kind(const boost::json::value& value, const FieldInfo& field);
Result<const boost::json::object*> read_object(const boost::json::value& value,
                                               std::string_view name);

template <auto Member>
struct MemberOf;
template <class R, class T, T R::*Member>
struct MemberOf<Member> {
  using Request = R;
  using Value = T;
};
template <auto Member>
using RequestOf = typename MemberOf<Member>::Request;

template <class R>
using Reader = Status (*)(R&, const boost::json::value&, const Field<R>&);

// The checked readers with one face: what a field may be stands in its info.
namespace field_reader {
using Value = boost::json::value;
inline Result<bool> boolean(const Value& value, const FieldInfo& field) {
  return read_bool(value, field.name);
}
inline Result<std::int64_t> integer(const Value& value, const FieldInfo& field) {
  return read_integer(value, field.name, field.min, field.max);
}
inline Result<double> number(const Value& value, const FieldInfo& field) {
  return read_number(value, field.name, field.min, field.max, field.above_min);
}
}  // namespace field_reader

template <class T>
struct StoredIn {
  using Type = T;
};
template <class T>
struct StoredIn<std::optional<T>> {
  using Type = T;
};
// A field whose value, as Read gives it, goes into one member or its optional.
template <auto Member, auto Read>
constexpr auto value_field(const FieldInfo& info) {
  using R = RequestOf<Member>;
  return Field<R>{info, [](R& request, const auto& value, const auto& field) -> Status {
                    using Stored = typename StoredIn<typename MemberOf<Member>::Value>::Type;
                    QUIRE_ASSIGN(auto made, Read(value, field));
                    request.*Member = static_cast<Stored>(std::move(made));
                    return {};
                  }};
}
template <auto Member>
constexpr auto bool_field(std::string_view name) {
  return value_field<Member, &field_reader::boolean>({name, FieldKind::kBool});
}
template <auto Member>
constexpr auto integer_field(std::string_view name, double min, double max) {
  return value_field<Member, &field_reader::integer>({name, FieldKind::kInteger, min, max});
}
template <auto Member>
constexpr auto number_field(std::string_view name, double min, double max, bool above_min = false) {
  return value_field<Member, &field_reader::number>(
      {name, FieldKind::kNumber, min, max, above_min});
}
template <auto Member>
constexpr auto string_field(std::string_view name) {
  return value_field<Member, &read_text>({name, FieldKind::kString});
}
// One of "a|b|c".
template <auto Member>
constexpr auto choice_field(std::string_view name, std::string_view choices) {
  FieldInfo info{name, FieldKind::kChoice};
  info.choices = choices;
  return value_field<Member, &read_choice>(info);
}
template <auto Member>
constexpr auto integers_field(std::string_view name, double min, double max) {
  return value_field<Member, &read_integers>({name, FieldKind::kIntegers, min, max});
}
template <auto Member>
constexpr auto strings_field(std::string_view name, std::size_t max_count) {
  FieldInfo info{name, FieldKind::kStrings};
  info.max_items = max_count;
  return value_field<Member, &read_strings>(info);
}
// A field with a reader of its own; `schema` is the JSON Schema of what that takes, beside null.
template <class R>
constexpr Field<R> custom_field(std::string_view name, std::string_view schema,
                                std::type_identity_t<Reader<R>> read) {
  Field<R> out{{name, FieldKind::kAny}, read};
  out.schema = schema;
  return out;
}
// Known but not possible here: only values that change nothing pass.
template <class R>
constexpr Field<R> unsupported_field(std::string_view name) {
  return {{name, FieldKind::kNeutral}, [](R&, const auto& value, const auto& field) -> Status {
            return check_neutral(value, field.name);
          }};
}
// Accepted, and nothing changes.
template <class R>
constexpr Field<R> ignored_field(std::string_view name, FieldKind kind,
                                 std::string_view choices = {}) {
  Field<R> out{{name, kind}, [](R&, const auto& value, const auto& field) -> Status {
                 return check_kind(value, field);
               }};
  out.choices = choices;
  return out;
}

// Reads every field of the table that the object has.
template <class Request>
Status read_fields(const boost::json::object& object,
                   std::span<const Field<std::type_identity_t<Request>>> table, Request& request) {
  for (const auto& field : table) {
    const auto* value =
        object.if_contains(boost::json::string_view(field.name.data(), field.name.size()));
    if (value == nullptr || value->is_null()) {
      if (field.required) return field_error(field.name, "`{}` is missing", field.name);
      continue;
    }
    QUIRE_TRY(field.read(request, *value, field));
  }
  return {};
}

// The rows of an object, whose errors name the path ("stream_options.include_usage").
template <class Request>
Status read_nested(const boost::json::value& value, std::string_view name,
                   std::span<const Field<std::type_identity_t<Request>>> table, Request& request) {
  QUIRE_ASSIGN(const auto* object, read_object(value, name));
  for (const auto& field : table) {
    const auto* inner =
        object->if_contains(boost::json::string_view(field.name.data(), field.name.size()));
    if (inner == nullptr || inner->is_null()) {
      if (field.required) return field_error(name, "`{}` needs \"{}\"", name, field.name);
      continue;
    }
    const std::string path = fmt::format("{}.{}", name, field.name);
    Field<Request> named = field;
    named.name = path;
    QUIRE_TRY(field.read(request, *inner, named));
  }
  return {};
}
template <class... Tables>
std::vector<FieldInfo> list_fields(const Tables&... tables) {
  std::vector<FieldInfo> out;
  (..., out.insert(out.end(), tables.begin(), tables.end()));
  return out;
}
// An object with the fields of Table(), read into one member.
template <auto Member, auto Table>
constexpr auto object_field(std::string_view name) {
  using R = RequestOf<Member>;
  Field<R> out{{name, FieldKind::kObject},
               [](R& request, const auto& value, const auto& field) -> Status {
                 using Value = typename MemberOf<Member>::Value;
                 if constexpr (requires(Value v) { v.emplace(); }) {
                   return read_nested<typename Value::value_type>(value, field.name, Table(),
                                                                  (request.*Member).emplace());
                 } else {
                   return read_nested<Value>(value, field.name, Table(), request.*Member);
                 }
               }};
  out.nested = [] { return list_fields(Table()); };
  return out;
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
