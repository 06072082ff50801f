// See call_writer.h.
#include "server/protocol/call_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "dialect/json_view.h"

namespace quire {
namespace {

namespace json = boost::json;
namespace tf = tag_format;
using tf::Format;
using Kind = CallForm::Kind;

// Behind a name; the number of the call stands for itself.
Format name_end(const ToolFunction& function, std::string_view end) {
  constexpr std::string_view kIndex = "{index}";
  const auto at = end.find(kIndex);
  if (at == std::string_view::npos) return tf::text(function.name + std::string(end));
  return tf::sequence({tf::text(function.name + std::string(end.substr(0, at))),
                       tf::regex("[0-9]{1,4}"), tf::text(end.substr(at + kIndex.size()))});
}

struct Piece {
  Format format;
  bool required = false;
};

// All of `pieces` in their order, between two of them the separator.
Format in_order(const std::vector<Piece>& pieces, std::string_view separator) {
  // What may follow once one of them stands there.
  const auto more = [&](std::size_t from) {
    json::array out;
    for (std::size_t i = from; i < pieces.size(); ++i) {
      Format next = separator.empty() ? pieces[i].format
                                      : tf::sequence({tf::text(separator), pieces[i].format});
      out.emplace_back(pieces[i].required ? std::move(next) : tf::optional(std::move(next)));
    }
    return out;
  };
  json::array starts;
  bool may_be_empty = true;
  for (std::size_t i = 0; i < pieces.size() && may_be_empty; ++i) {
    json::array one = more(i + 1);
    one.insert(one.begin(), pieces[i].format);
    starts.emplace_back(tf::sequence(std::move(one)));
    may_be_empty = !pieces[i].required;
  }
  if (starts.empty()) return tf::text("");
  Format out = tf::any_of(std::move(starts));
  return may_be_empty ? tf::optional(std::move(out)) : out;
}

std::string_view type_name(const json::value& schema) {
  const auto* object = schema.if_object();
  const auto* type = object == nullptr ? nullptr : object->if_contains("type");
  return type == nullptr || !type->is_string() ? std::string_view() : view(type->get_string());
}

}  // namespace

bool CallWriter::offered(const ToolFunction& function) const {
  return tools_.choice != ToolChoice::kNamed || function.name == tools_.name;
}
bool CallWriter::enforced(const ToolFunction& function) const {
  return tools_.forced() || function.strict;
}

json::value CallWriter::arguments_schema(const ToolFunction& function) const {
  return enforced(function) ? schema_of(function) : any_object_schema();
}

// {"name", "arguments"} of any function, to stand at `place` of a schema.
json::value CallWriter::objects_schema(const std::string& place) const {
  const json::string name_key(form_.name_key.data(), form_.name_key.size());
  const json::string arguments_key(form_.arguments_key.data(), form_.arguments_key.size());
  json::array calls;
  for (const auto& function : tools_.functions) {
    if (!offered(function)) continue;
    json::value arguments = arguments_schema(function);
    move_references(arguments, fmt::format("{}/anyOf/{}/properties/{}", place, calls.size(),
                                           form_.arguments_key));
    json::object properties;
    if (!form_.number_key.empty())
      properties[{form_.number_key.data(), form_.number_key.size()}] =
          json::object{{"type", "string"}, {"pattern", "^[0-9]{1,4}$"}};
    properties[name_key] = json::object{{"enum", json::array{json::string(function.name)}}};
    properties[arguments_key] = std::move(arguments);
    calls.emplace_back(json::object{{"type", "object"},
                                    {"properties", std::move(properties)},
                                    {"required", json::array{name_key, arguments_key}},
                                    {"additionalProperties", false}});
  }
  return json::object{{"anyOf", std::move(calls)}};
}

Format CallWriter::list(bool parallel) const {
  json::object list{{"type", "array"}, {"minItems", 1}};
  if (!parallel) list["maxItems"] = 1;
  list["items"] = objects_schema("#/items");
  return tf::schema(std::move(list));
}

Result<Format> CallWriter::call(std::string_view before) const {
  // One literal: what only begins like the end of all calls must not be taken for it.
  const Format begin = tf::text(fmt::format("{}{}", before, form_.call_begin));
  if (form_.kind == Kind::kObjects) {
    return tf::sequence({begin, tf::schema(objects_schema("#")), tf::text(form_.call_end)});
  }
  json::array calls;
  for (std::size_t i = 0; i < tools_.functions.size(); ++i) {
    const ToolFunction& function = tools_.functions[i];
    if (!offered(function)) continue;
    auto made = named(function);
    if (!made) {
      return tl::unexpected(Error{ErrorCode::kUnsupported, made.error().message,
                                  fmt::format("tools[{}].function.parameters", i)});
    }
    calls.emplace_back(std::move(*made));
  }
  return tf::sequence({begin, tf::any_of(std::move(calls))});
}

Result<Format> CallWriter::named(const ToolFunction& function) const {
  if (form_.kind == Kind::kTags) return with_tags(function);
  if (form_.kind == Kind::kPython || form_.kind == Kind::kBareKeys) return with_keys(function);
  return tf::sequence({name_end(function, form_.name_end), tf::schema(arguments_schema(function)),
                       tf::text(form_.call_end)});
}

Result<Format> CallWriter::with_tags(const ToolFunction& function) const {
  const Format begin = name_end(function, form_.name_end);
  if (!enforced(function))
    return tf::sequence({begin, tf::tag("", tf::any_text(), form_.call_end)});
  QUIRE_ASSIGN(const auto parameters, parameters_of(function));
  std::vector<Piece> pieces;
  for (const auto& parameter : parameters) {
    QUIRE_ASSIGN(auto value, tag_value(function, parameter));
    pieces.push_back({std::move(value), parameter.required});
  }
  return tf::sequence({begin, in_order(pieces, ""), tf::text(form_.call_end)});
}

// Text stands bare, as the reader takes it by its type; the rest is JSON.
Result<Format> CallWriter::tag_value(const ToolFunction& function,
                                     const Parameter& parameter) const {
  const std::string begin = fmt::format("{}{}{}", form_.key_begin, parameter.name, form_.key_end);
  const ParamType type = tools_.set->type_of(function.name, parameter.name);
  if (type == ParamType::kString || type == ParamType::kStringOrNull)
    return bare_text(parameter, begin, form_.value_end);
  return tf::sequence({tf::text(begin), tf::schema(parameter.schema), tf::text(form_.value_end)});
}

Result<Format> CallWriter::bare_text(const Parameter& parameter, std::string_view begin,
                                     std::string_view end) const {
  QUIRE_ASSIGN(const auto schema, text_schema(parameter));
  if (!schema.choices.empty()) {
    json::array choices;
    for (const auto& choice : schema.choices) choices.emplace_back(tf::text(choice));
    return tf::sequence({tf::text(begin), tf::any_of(std::move(choices)), tf::text(end)});
  }
  if (!schema.pattern.empty()) return tf::matching_text(begin, schema.pattern, end);
  return tf::tag(begin, tf::any_text(), end);
}

// f(a=1) or f{a:1}
Result<Format> CallWriter::with_keys(const ToolFunction& function) const {
  const bool python = form_.kind == Kind::kPython;
  const auto fits = [&](std::string_view name) {
    return std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
  };
  QUIRE_ASSIGN(const auto parameters, parameters_of(function));
  if (python && !fits(function.name))
    return make_error(ErrorCode::kUnsupported, "the function's name in a call like Python's");
  std::vector<Piece> pieces;
  for (const auto& parameter : parameters) {
    if (!fits(parameter.name))
      return make_error(ErrorCode::kUnsupported, "the name of the parameter \"{}\"",
                        parameter.name);
    QUIRE_ASSIGN(auto value, key_value(parameter));
    pieces.push_back({tf::sequence({tf::text(parameter.name + (python ? "=" : ":")), value}),
                      parameter.required});
  }
  return tf::sequence({tf::text(function.name + (python ? "(" : "{")),
                       in_order(pieces, python ? ", " : ","), tf::text(python ? ")" : "}"),
                       tf::text(form_.call_end)});
}

Result<Format> CallWriter::key_value(const Parameter& parameter) const {
  const std::string_view type = type_name(parameter.schema);
  if (form_.kind == Kind::kPython) {
    const bool plain =
        !parameter.schema.is_object() || (!parameter.schema.as_object().contains("enum") &&
                                          !parameter.schema.as_object().contains("const"));
    if (type == "boolean" && plain)
      return tf::any_of(json::array{tf::text("True"), tf::text("False")});
    if (type == "null") return tf::text("None");
    return tf::schema(parameter.schema);  // a literal of JSON is one of Python, or read as such
  }
  if (type == "string") return bare_text(parameter, form_.quote, form_.quote);
  if (type == "integer" || type == "number" || type == "boolean" || type == "null")
    return tf::schema(parameter.schema);
  return make_error(ErrorCode::kUnsupported, "the type of the parameter \"{}\"", parameter.name);
}

Result<std::vector<CallWriter::Opening>> CallWriter::openings() const {
  const Format blank = tf::optional(tf::regex("[ \\n\\r\\t]{1,8}"));
  std::vector<Opening> out;
  for (std::size_t i = 0; i < tools_.functions.size(); ++i) {
    const ToolFunction& function = tools_.functions[i];
    if (!enforced(function)) continue;
    Opening& opening = out.emplace_back();
    const std::string name = tf::regex_escaped(function.name);
    if (form_.kind == Kind::kPython) {
      // Behind the bracket: this call, maybe others.
      opening.pattern = fmt::format(R"(\[\s*{}\()", name);
      auto first = with_keys(function);
      if (!first) {
        return tl::unexpected(Error{ErrorCode::kUnsupported, first.error().message,
                                    fmt::format("tools[{}].function.parameters", i)});
      }
      // The name has come with the opening.
      first->at("elements").as_array().front() = tf::text("");
      QUIRE_ASSIGN(auto other, call(form_.separator));
      opening.rest =
          tf::sequence({std::move(*first), tf::star(std::move(other)), tf::text(form_.end)});
      continue;
    }
    opening.pattern =
        fmt::format(R"re(\{{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*"{}"\s*,\s*)re"
                    R"re("(?:parameters|arguments)"\s*:)re",
                    name);
    opening.rest = tf::sequence({blank, tf::schema(schema_of(function)), blank, tf::text("}")});
  }
  return out;
}

Format CallWriter::message() const {
  json::array calls;
  for (const auto& function : tools_.functions) {
    if (!offered(function)) continue;
    const std::string to = " to=functions." + function.name;
    const Format type = tf::optional(tf::any_of(json::array{
        tf::text(" <|constrain|>json"), tf::text(" json"), tf::text("<|constrain|>json")}));
    const Format header =
        tf::sequence({tf::any_of(json::array{tf::text("<|channel|>commentary" + to),
                                             tf::text(to + "<|channel|>commentary")}),
                      type, tf::text("<|message|>")});
    calls.emplace_back(tf::sequence({header, tf::schema(arguments_schema(function))}));
  }
  return tf::any_of(std::move(calls));
}

}  // namespace quire
