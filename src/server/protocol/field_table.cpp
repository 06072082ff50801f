#include "server/protocol/field_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <mutex>
#include <unordered_set>

#include "base/log.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxRememberedNames = 256;

std::string range_text(double min, double max, bool above_min) {
  const bool upper = max < 1e15;
  if (min > -1e15 && upper)
    return fmt::format("{} {} and at most {}", above_min ? "above" : "at least", min, max);
  if (upper) return fmt::format("at most {}", max);
  return fmt::format("{} {}", above_min ? "above" : "at least", min);
}

// nullopt: not an integer, or one that 64 bits do not hold.
std::optional<std::int64_t> as_integer(const json::value& value) {
  if (const auto* i = value.if_int64()) return *i;
  if (const auto* d = value.if_double(); d && std::abs(*d) < 9e15 && std::trunc(*d) == *d) {
    return static_cast<std::int64_t>(*d);
  }
  return std::nullopt;
}

tl::unexpected<Error> wrong_kind(std::string_view name, std::string_view want,
                                 const json::value& value) {
  return field_error(name, "`{}` must be {}, but it is {}", name, want, json_kind(value));
}

Status check_count(std::size_t count, const FieldInfo& field) {
  if (count < field.min_items) {
    return field_error(field.name, "`{}` must hold at least {}, but it holds {}", field.name,
                       field.min_items, count);
  }
  if (count > field.max_items) {
    return field_error(field.name, "`{}` may hold at most {}, but it holds {}", field.name,
                       field.max_items, count);
  }
  return {};
}

}  // namespace

std::vector<std::string_view> split_choices(std::string_view choices) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0; begin <= choices.size();) {
    const std::size_t end = std::min(choices.find('|', begin), choices.size());
    out.push_back(choices.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

Result<bool> read_bool(const json::value& value, std::string_view name) {
  if (const auto* b = value.if_bool()) return *b;
  return wrong_kind(name, "true or false", value);
}

Result<std::int64_t> read_integer(const json::value& value, std::string_view name, double min,
                                  double max) {
  const auto number = as_integer(value);
  if (!number) {
    if (!value.is_number()) return wrong_kind(name, "an integer", value);
    return field_error(name, "`{}` must be an integer of 64 bits, but it is {}", name,
                       value.to_number<double>());
  }
  const auto as_double = static_cast<double>(*number);
  if (as_double < min || as_double > max) {
    return field_error(name, "`{}` must be {}, but it is {}", name, range_text(min, max, false),
                       *number);
  }
  return *number;
}

Result<double> read_number(const json::value& value, std::string_view name, double min, double max,
                           bool above_min) {
  if (!value.is_number()) return wrong_kind(name, "a number", value);
  const auto number = value.to_number<double>();
  if (!(number >= min && number <= max) || (above_min && number == min)) {
    return field_error(name, "`{}` must be {}, but it is {}", name, range_text(min, max, above_min),
                       number);
  }
  return number;
}

Result<std::string> read_string(const json::value& value, std::string_view name) {
  if (const auto* s = value.if_string()) return std::string(s->data(), s->size());
  return wrong_kind(name, "a string", value);
}

Result<std::string> read_text(const json::value& value, const FieldInfo& field) {
  QUIRE_ASSIGN(auto text, read_string(value, field.name));
  if (text.size() < field.min_items)
    return field_error(field.name, "`{}` must not be empty: leave it out", field.name);
  if (text.size() > field.max_items) {
    return field_error(field.name, "`{}` may have at most {} bytes, but it has {}", field.name,
                       field.max_items, text.size());
  }
  return text;
}

Result<std::string> read_choice(const json::value& value, const FieldInfo& field) {
  QUIRE_ASSIGN(auto text, read_string(value, field.name));
  const std::vector<std::string_view> choices = split_choices(field.choices);
  if (std::ranges::find(choices, text) != choices.end()) return text;
  return field_error(field.name, "`{}` must be one of {}, but it is \"{}\"", field.name,
                     fmt::join(choices, ", "), text);
}

Result<std::vector<std::int32_t>> read_integers(const json::value& value, const FieldInfo& field) {
  const auto* array = value.if_array();
  if (array == nullptr) return wrong_kind(field.name, "a list of integers", value);
  QUIRE_TRY(check_count(array->size(), field));
  std::vector<std::int32_t> out;
  out.reserve(array->size());
  for (std::size_t i = 0; i < array->size(); ++i) {
    // The path is made only for a message: prompts of ids are long.
    const auto number = as_integer((*array)[i]);
    if (!number || static_cast<double>(*number) < field.min ||
        static_cast<double>(*number) > field.max) {
      QUIRE_TRY(
          read_integer((*array)[i], fmt::format("{}[{}]", field.name, i), field.min, field.max));
    }
    out.push_back(static_cast<std::int32_t>(*number));
  }
  return out;
}

Result<std::vector<std::string>> read_strings(const json::value& value, const FieldInfo& field) {
  const std::string_view name = field.name;
  std::vector<std::string> out;
  if (value.is_string()) {
    QUIRE_ASSIGN(auto text, read_string(value, name));
    out.push_back(std::move(text));
  } else if (const auto* array = value.if_array()) {
    QUIRE_TRY(check_count(array->size(), field));
    for (std::size_t i = 0; i < array->size(); ++i) {
      QUIRE_ASSIGN(auto text, read_string((*array)[i], fmt::format("{}[{}]", name, i)));
      out.push_back(std::move(text));
    }
  } else {
    return wrong_kind(name, "a string or a list of strings", value);
  }
  for (const auto& text : out) {
    if (text.empty()) return field_error(name, "`{}` must not hold an empty string", name);
  }
  return out;
}

Result<const json::object*> read_object(const json::value& value, std::string_view name) {
  if (const auto* object = value.if_object()) return object;
  return wrong_kind(name, "an object", value);
}

Status check_neutral(const json::value& value, std::string_view name) {
  const bool neutral = (value.is_bool() && !value.get_bool()) ||
                       (value.is_number() && value.to_number<double>() == 0) ||
                       (value.is_string() && value.get_string().empty()) ||
                       (value.is_array() && value.get_array().empty()) ||
                       (value.is_object() && value.get_object().empty());
  if (neutral) return {};
  return tl::unexpected(Error{ErrorCode::kUnsupported,
                              fmt::format("`{}` is not supported here: leave it out", name),
                              std::string(name)});
}

Status check_kind(const json::value& value, const FieldInfo& field) {
  switch (field.kind) {
    case FieldKind::kBool:
      QUIRE_TRY(read_bool(value, field.name));
      break;
    case FieldKind::kString:
      QUIRE_TRY(read_text(value, field));
      break;
    case FieldKind::kChoice:
      QUIRE_TRY(read_choice(value, field));
      break;
    case FieldKind::kObject:
      QUIRE_TRY(read_object(value, field.name));
      break;
    default:
      break;
  }
  return {};
}

void log_unknown_fields(const json::object& object, std::span<const std::string_view> known) {
  static std::mutex mutex;
  static std::unordered_set<std::string> seen;
  for (const auto& member : object) {
    const std::string_view name(member.key().data(), member.key().size());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::lock_guard lock(mutex);
    if (seen.size() >= kMaxRememberedNames || name.size() > 64) return;
    if (seen.emplace(name).second)
      // As JSON: a name must not be able to start a line of its own in the log.
      log_warning("request field {} is not known here and is ignored",
                  json::serialize(member.key()));
  }
}

Result<json::object> parse_object(std::string_view body) {
  QUIRE_ASSIGN(auto value, parse_json(body));
  if (auto* object = value.if_object()) return std::move(*object);
  return make_error(ErrorCode::kInvalidArgument,
                    "the request body must be a JSON object, but it is {}", json_kind(value));
}

}  // namespace quire
