// A JSON object as ConfigFields.
#include <boost/json/array.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "weights/hf_parts.h"

namespace quire {
namespace json = boost::json;

namespace {

// A number that JSON cannot spell: {"__float__": "Infinity"}.
std::optional<double> special_float(const json::object& object) {
  const json::value* text = object.if_contains("__float__");
  if (text == nullptr || !text->is_string()) return std::nullopt;
  const std::string_view name(text->get_string().data(), text->get_string().size());
  if (name == "Infinity") return std::numeric_limits<double>::infinity();
  if (name == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (name == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

std::optional<double> number_of(const json::value& value) {
  if (value.is_object()) return special_float(value.get_object());
  if (value.is_number()) return value.to_number<double>();
  if (value.is_bool()) return value.get_bool() ? 1.0 : 0.0;
  return std::nullopt;
}

bool is_whole(const json::value& value) { return value.is_int64() || value.is_bool(); }

// A list of numbers or of texts; nothing for a list of anything else.
std::optional<ConfigFields::Value> list_of(const json::array& array) {
  std::vector<std::int64_t> whole;
  std::vector<double> numbers;
  std::vector<std::string> texts;
  for (const json::value& item : array) {
    if (item.is_string()) texts.emplace_back(item.get_string());
    if (is_whole(item)) whole.push_back(item.is_bool() ? item.get_bool() : item.get_int64());
    if (const auto number = number_of(item)) numbers.push_back(*number);
  }
  if (whole.size() == array.size()) return whole;
  if (numbers.size() == array.size()) return numbers;
  if (texts.size() == array.size()) return texts;
  return std::nullopt;
}

void flatten_into(const json::object& object, const std::string& prefix, ConfigFields* fields) {
  for (const auto& entry : object) {
    const std::string name = prefix + std::string(entry.key());
    const json::value& value = entry.value();
    if (value.is_object()) {
      if (const auto number = special_float(value.get_object())) {
        fields->set(name, *number);
      } else {
        flatten_into(value.get_object(), name + ".", fields);
      }
    } else if (value.is_array()) {
      if (auto list = list_of(value.get_array())) fields->set(name, *std::move(list));
    } else if (value.is_int64()) {
      fields->set(name, value.get_int64());
    } else if (value.is_bool()) {
      fields->set(name, value.get_bool());
    } else if (value.is_number()) {
      fields->set(name, value.to_number<double>());
    } else if (value.is_string()) {
      fields->set(name, std::string(value.get_string()));
    }
  }
}

}  // namespace

void flatten_json(const json::object& object, ConfigFields* fields) {
  flatten_into(object, "", fields);
}

}  // namespace quire
