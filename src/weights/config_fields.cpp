#include "weights/config_fields.h"

namespace quire {
namespace {

template <class To>
struct Converter {
  To otherwise;
  To operator()(std::int64_t v) const { return static_cast<To>(v); }
  To operator()(double v) const { return static_cast<To>(v); }
  To operator()(bool v) const { return static_cast<To>(v); }
  template <class Other>
  To operator()(const Other&) const {
    return otherwise;
  }
};

// A list of numbers, or one number as a list.
template <class To>
struct ListConverter {
  std::vector<To> operator()(std::int64_t v) const { return {static_cast<To>(v)}; }
  std::vector<To> operator()(double v) const { return {static_cast<To>(v)}; }
  std::vector<To> operator()(bool v) const { return {static_cast<To>(v)}; }
  std::vector<To> operator()(const std::vector<std::int64_t>& v) const {
    return {v.begin(), v.end()};
  }
  std::vector<To> operator()(const std::vector<double>& v) const {
    std::vector<To> out;
    out.reserve(v.size());
    for (const double d : v) out.push_back(static_cast<To>(d));
    return out;
  }
  template <class Other>
  std::vector<To> operator()(const Other&) const {
    return {};
  }
};

}  // namespace

std::int64_t ConfigFields::integer(std::string_view name, std::int64_t otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise
                                : std::visit(Converter<std::int64_t>{otherwise}, found->second);
}
double ConfigFields::number(std::string_view name, double otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise
                                : std::visit(Converter<double>{otherwise}, found->second);
}
bool ConfigFields::boolean(std::string_view name, bool otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : std::visit(Converter<bool>{otherwise}, found->second);
}
std::string ConfigFields::text(std::string_view name, std::string_view otherwise) const {
  const auto found = values_.find(name);
  const std::string* value =
      found == values_.end() ? nullptr : std::get_if<std::string>(&found->second);
  return value ? *value : std::string(otherwise);
}
std::vector<std::int64_t> ConfigFields::integers(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return {};
  return std::visit(ListConverter<std::int64_t>{}, found->second);
}
std::vector<double> ConfigFields::numbers(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return {};
  return std::visit(ListConverter<double>{}, found->second);
}
std::vector<std::string> ConfigFields::texts(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return {};
  if (const auto* list = std::get_if<std::vector<std::string>>(&found->second)) return *list;
  if (const auto* one = std::get_if<std::string>(&found->second)) return {*one};
  return {};
}
Result<std::int64_t> ConfigFields::need_integer(std::string_view name) const {
  const auto found = values_.find(name);
  if (found != values_.end() && std::holds_alternative<std::int64_t>(found->second))
    return std::get<std::int64_t>(found->second);
  return make_error(ErrorCode::kBadFile,
                    "the model's configuration has no integer '{}', which this architecture needs",
                    name);
}
Result<double> ConfigFields::need_number(std::string_view name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) {
    if (const auto* d = std::get_if<double>(&found->second)) return *d;
    if (const auto* i = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*i);
  }
  return make_error(ErrorCode::kBadFile,
                    "the model's configuration has no number '{}', which this architecture needs",
                    name);
}

}  // namespace quire
