#include "weights/json_fields.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <unordered_set>
#include <vector>

#include "weights/checked.h"

namespace quire {
namespace json = boost::json;

namespace {

std::optional<std::int64_t> as_int(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    const double d = value.get_double();
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (std::trunc(d) == d && std::abs(d) <= kExact) return static_cast<std::int64_t>(d);
  }
  return std::nullopt;
}

// The text with the numbers that JSON cannot spell as objects that it can.
std::string with_spelled_numbers(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest[0] == '"') in_string = !in_string;
    if (in_string && rest[0] == '\\' && rest.size() > 1) {  // what is escaped ends no string
      out.append(text, i++, 2);
      continue;
    }
    std::string_view word;
    for (const std::string_view each : {"NaN", "Infinity", "-Infinity"}) {
      if (!in_string && rest.starts_with(each)) word = each;
    }
    if (word.empty()) {
      out += rest[0];
    } else {
      out += fmt::format(R"({{"__float__":"{}"}})", word);
      i += word.size() - 1;
    }
  }
  return out;
}

// What a string of JSON spells; as it is written where that is not valid.
std::string unescaped(std::string_view written) {
  if (written.find('\\') == written.npos) return std::string(written);
  json::error_code error;
  const json::value value = json::parse(fmt::format("\"{}\"", written), error);
  return error ? std::string(written) : std::string(value.get_string());
}

json::value parse_value(std::string_view text, json::error_code& error) {
  json::parse_options options;
  options.max_depth = 32;
  return json::parse(json::string_view(text.data(), text.size()), error, {}, options);
}

}  // namespace

Result<json::object> parse_json_object(std::string_view text, std::string_view name) {
  json::error_code error;
  json::value value = parse_value(text, error);
  if (error) {
    const json::error_code first = error;
    value = parse_value(with_spelled_numbers(text), error);
    if (error) error = first;
  }
  if (error) {
    return make_error(ErrorCode::kBadFile, "{}: not valid JSON: {}", name, error.message());
  }
  if (!value.is_object()) {
    return make_error(ErrorCode::kBadFile, "{}: the JSON is not an object", name);
  }
  return std::move(value.get_object());
}

Status check_unique_keys(std::string_view text, std::string_view name) {
  std::vector<std::unordered_set<std::string>> keys;  // of each object or list that is open
  std::string_view last;                              // text, as it is written
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') {
      keys.emplace_back();
    } else if ((c == '}' || c == ']') && !keys.empty()) {
      keys.pop_back();
    } else if (c == ':' && !keys.empty()) {
      std::string key = unescaped(last);
      if (keys.back().insert(key).second) continue;
      return make_error(ErrorCode::kBadFile, "{}: \"{}\" appears twice", name, printable(key));
    } else if (c == '"') {
      const std::size_t begin = ++i;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      last = text.substr(begin, std::min(i, text.size()) - begin);
    }
  }
  return {};
}

void merge_json(const json::object& over, json::object* base) {
  for (const auto& entry : over) {
    json::value* below = base->if_contains(entry.key());
    if (below != nullptr && below->is_object() && entry.value().is_object()) {
      merge_json(entry.value().get_object(), &below->get_object());
    } else {
      (*base)[entry.key()] = entry.value();
    }
  }
}

const json::value* JsonFields::find(std::string_view key) const {
  const json::value* value = object_.if_contains(json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool JsonFields::has(std::string_view key) const {
  return object_.contains(json::string_view(key.data(), key.size()));
}

tl::unexpected<Error> JsonFields::wrong_type(std::string_view key, std::string_view wanted) const {
  return make_error(ErrorCode::kBadFile, "{}: \"{}\" is {}; {} is expected", name_, key,
                    printable(json::serialize(*find(key))), wanted);
}

Result<std::optional<std::int64_t>> JsonFields::get_int(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_int(*value);
  if (!number) return wrong_type(key, "an integer");
  return number;
}

Result<std::optional<double>> JsonFields::get_number(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrong_type(key, "a number");
  const double number = value->to_number<double>();
  if (!std::isfinite(number)) return wrong_type(key, "a finite number");
  return number;
}

Result<std::optional<bool>> JsonFields::get_bool(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) return wrong_type(key, "true or false");
  return value->get_bool();
}

Result<std::optional<std::string>> JsonFields::get_string(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong_type(key, "a string");
  return std::string(value->get_string());
}

Result<std::vector<std::int64_t>> JsonFields::get_ints(std::string_view key) const {
  std::vector<std::int64_t> ints;
  const json::value* value = find(key);
  if (value == nullptr) return ints;
  const auto add = [&](const json::value& item) {
    const auto number = as_int(item);
    if (number) ints.push_back(*number);
    return number.has_value();
  };
  if (!value->is_array()) {
    if (!add(*value)) return wrong_type(key, "an integer or a list of integers");
    return ints;
  }
  for (const json::value& item : value->get_array()) {
    if (!add(item)) return wrong_type(key, "an integer or a list of integers");
  }
  return ints;
}

Result<const json::object*> JsonFields::get_object(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) return wrong_type(key, "an object");
  return &value->get_object();
}

}  // namespace quire
