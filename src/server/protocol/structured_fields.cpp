#include "server/protocol/structured_fields.h"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <utility>

#include "dialect/json_view.h"
#include "server/protocol/json_parse.h"

namespace quire {
namespace {

namespace json = boost::json;
using GrammarKind = GrammarSpec::Kind;

const json::value* find(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status set_grammar(CommonRequest& request, std::string_view field, GrammarSpec spec) {
  if (request.grammar) {
    return field_error(field, "`{}` and `{}` both say what the answer must fit: give one of them",
                       request.grammar_field, field);
  }
  request.grammar = std::move(spec);
  request.grammar_field = std::string(field);
  return {};
}

Result<GrammarSpec> text_spec(GrammarKind kind, const json::value& value, std::string_view name) {
  GrammarSpec spec;
  spec.kind = kind;
  QUIRE_ASSIGN(spec.text, read_string(value, name));
  return spec;
}

// A JSON value, or its text.
Result<GrammarSpec> json_spec(GrammarKind kind, const json::value& value, std::string_view name) {
  if (value.is_string()) {
    QUIRE_ASSIGN(auto spec, text_spec(kind, value, name));
    const auto parsed = parse_json(spec.text);
    if (!parsed) {
      std::string_view why = parsed.error().message;  // "the request body ...: why"
      why.remove_prefix(why.find(": ") + 2);
      return field_error(name, "`{}` is not valid JSON: {}", name, why);
    }
    spec.text = json::serialize(*parsed);
    return spec;
  }
  if (!value.is_object()) {
    return field_error(name, "`{}` must be an object or its JSON text, but it is {}", name,
                       json_kind(value));
  }
  GrammarSpec spec;
  spec.kind = kind;
  spec.text = json::serialize(value);
  return spec;
}

Result<GrammarSpec> choice_spec(const json::value& value, std::string_view name) {
  if (!value.is_array()) {
    return field_error(name, "`{}` must be a list of strings, but it is {}", name,
                       json_kind(value));
  }
  const json::array& choices = value.get_array();
  if (choices.empty()) return field_error(name, "`{}` must hold at least one string", name);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].is_string()) QUIRE_TRY(read_string(choices[i], fmt::format("{}[{}]", name, i)));
  }
  GrammarSpec spec;
  spec.kind = GrammarKind::kChoice;
  spec.text = json::serialize(value);
  return spec;
}

// One constraint of structured_outputs or guided_*, by its short name.
Result<GrammarSpec> constraint(std::string_view kind, const json::value& value,
                               std::string_view name) {
  if (kind == "json") return json_spec(GrammarKind::kJsonSchema, value, name);
  if (kind == "structural_tag") return json_spec(GrammarKind::kStructuralTag, value, name);
  if (kind == "regex") return text_spec(GrammarKind::kRegex, value, name);
  if (kind == "grammar") return text_spec(GrammarKind::kGrammar, value, name);
  return choice_spec(value, name);
}

constexpr std::string_view kConstraints[] = {"json", "regex", "choice", "grammar",
                                             "structural_tag"};

// OpenAI's rule. Nothing depends on the name, so it may be missing.
Status check_schema_name(const json::value& value) {
  constexpr std::string_view kPlace = "response_format.json_schema.name";
  constexpr std::size_t kMaxBytes = 64;
  QUIRE_ASSIGN(const auto name, read_string(value, kPlace));
  const bool well = !name.empty() && name.size() <= kMaxBytes &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '_' || c == '-';
                    });
  if (well) return {};
  return field_error(kPlace, "`{}` must be 1 to {} letters, digits, _ and -, but it is {}", kPlace,
                     kMaxBytes, json::serialize(json::value(json::string(name.substr(0, 100)))));
}

// The schema of {"type": "json_schema"}, in its wrapper or, as other servers take it, without.
Result<GrammarSpec> wrapped_schema(const json::object& object) {
  const auto* wrapper = find(object, "json_schema");
  const auto* schema = find(object, "schema");
  std::string_view place = "response_format.schema";
  if (wrapper != nullptr) {
    place = "response_format.json_schema.schema";
    if (!wrapper->is_object()) {
      return field_error("response_format.json_schema",
                         "`response_format.json_schema` must be an object, but it is {}",
                         json_kind(*wrapper));
    }
    schema = find(wrapper->get_object(), "schema");
    if (const auto* name = find(wrapper->get_object(), "name")) QUIRE_TRY(check_schema_name(*name));
    const auto* strict = find(wrapper->get_object(), "strict");
    if (strict != nullptr) QUIRE_TRY(read_bool(*strict, "response_format.json_schema.strict"));
  }
  if (schema == nullptr) {
    return field_error("response_format",
                       "`response_format` of type \"json_schema\" needs "
                       "{{\"json_schema\": {{\"name\": ..., \"schema\": {{...}}}}}}");
  }
  if (!schema->is_object() && !schema->is_bool())
    return field_error(place, "`{}` must be an object, but it is {}", place, json_kind(*schema));
  GrammarSpec spec;
  spec.text = json::serialize(*schema);
  return spec;
}

// They are of JSON: what else the answer must fit says itself which white space it has.
Status check_options_kind(const GrammarSpec& spec) {
  const bool json =
      spec.kind == GrammarKind::kJsonSchema || spec.kind == GrammarKind::kStructuralTag;
  const std::string_view option = spec.has_whitespace_pattern   ? "whitespace_pattern"
                                  : spec.disable_any_whitespace ? "disable_any_whitespace"
                                  : spec.disable_additional_properties
                                      ? "disable_additional_properties"
                                      : "";
  if (json || option.empty()) return {};
  return field_error(
      fmt::format("structured_outputs.{}", option),
      "`structured_outputs.{}` is for json, json_object and structural_tag: leave it "
      "out",
      option);
}

Status read_options(GrammarSpec& spec, const json::object& object) {
  constexpr std::string_view kPlace = "structured_outputs";
  if (const auto* value = find(object, "disable_any_whitespace")) {
    QUIRE_ASSIGN(spec.disable_any_whitespace,
                 read_bool(*value, fmt::format("{}.disable_any_whitespace", kPlace)));
  }
  if (const auto* value = find(object, "disable_additional_properties")) {
    QUIRE_ASSIGN(spec.disable_additional_properties,
                 read_bool(*value, fmt::format("{}.disable_additional_properties", kPlace)));
  }
  if (const auto* value = find(object, "whitespace_pattern")) {
    QUIRE_ASSIGN(spec.whitespace_pattern,
                 read_string(*value, fmt::format("{}.whitespace_pattern", kPlace)));
    spec.has_whitespace_pattern = true;
    if (spec.disable_any_whitespace) {
      return field_error("structured_outputs",
                         "`structured_outputs` has both `whitespace_pattern` and "
                         "`disable_any_whitespace`: give one of them");
    }
  }
  return {};
}

bool is_option(std::string_view key) {
  return key == "disable_any_whitespace" || key == "disable_additional_properties" ||
         key == "whitespace_pattern" || key == "disable_fallback" || key.starts_with('_');
}

// What else a response_format may hold to say what the answer must fit, and for which types it
// does. What another type would leave unread is refused.
Status check_unread(const json::object& object, std::string_view type) {
  struct Member {
    std::string_view name, types;
  };
  static constexpr Member kMembers[] = {{"json_schema", "json_schema"},
                                        {"schema", "json_schema json_object"},
                                        {"format", "structural_tag"},
                                        {"structures", "structural_tag"},
                                        {"triggers", "structural_tag"},
                                        // Of structured_outputs: for no type.
                                        {"json", ""},
                                        {"regex", ""},
                                        {"choice", ""},
                                        {"grammar", ""},
                                        {"structural_tag", ""}};
  for (const Member& member : kMembers) {
    if (find(object, member.name) == nullptr || member.types.find(type) != std::string_view::npos)
      continue;
    const std::string place = fmt::format("response_format.{}", member.name);
    if (member.types.empty()) {
      return field_error(place, "`{}` is not read: give it in `structured_outputs`", place);
    }
    return field_error(place,
                       "`{}` is not read with \"type\": \"{}\": set the type to \"{}\", or leave "
                       "it out",
                       place, type, member.types.substr(0, member.types.find(' ')));
  }
  if (type == "json_schema" && find(object, "json_schema") != nullptr &&
      find(object, "schema") != nullptr) {
    return field_error("response_format.schema",
                       "`response_format.schema` and `response_format.json_schema` both say what "
                       "the answer must fit: give one of them");
  }
  return {};
}

Status read_response_format(CommonRequest& request, const json::value& value,
                            const Field<CommonRequest>& field) {
  const auto* object = value.if_object();
  const auto* type = object == nullptr ? nullptr : object->if_contains("type");
  if (type == nullptr || !type->is_string())
    return field_error(field.name, "`response_format` must be an object with a \"type\"");
  const std::string_view name = view(type->get_string());
  if (name == "text" || name.starts_with("json_") || name == "structural_tag")
    QUIRE_TRY(check_unread(*object, name));
  if (name == "text") return {};
  if (name == "json_schema" || (name == "json_object" && find(*object, "schema") != nullptr)) {
    QUIRE_ASSIGN(auto spec, wrapped_schema(*object));
    return set_grammar(request, field.name, std::move(spec));
  }
  if (name == "json_object") return set_grammar(request, field.name, json_object_spec());
  if (name == "structural_tag") {
    QUIRE_ASSIGN(auto spec, json_spec(GrammarKind::kStructuralTag, value, field.name));
    return set_grammar(request, field.name, std::move(spec));
  }
  return field_error(field.name,
                     "`response_format.type` must be \"text\", \"json_object\", \"json_schema\" or "
                     "\"structural_tag\", but it is \"{}\"",
                     name);
}

Status read_structured_outputs(CommonRequest& request, const json::value& value,
                               const Field<CommonRequest>& field) {
  const auto* object = value.if_object();
  if (object == nullptr) {
    return field_error(field.name, "`structured_outputs` must be an object, but it is {}",
                       json_kind(value));
  }
  std::optional<GrammarSpec> spec;
  std::string name;
  for (const auto& member : *object) {
    const std::string_view key(member.key().data(), member.key().size());
    if (is_option(key) || member.value().is_null()) continue;
    const bool known =
        std::find(std::begin(kConstraints), std::end(kConstraints), key) != std::end(kConstraints);
    const std::string place = fmt::format("structured_outputs.{}", key);
    if (!known && key != "json_object")
      return field_error(place, "`{}` is not known: it can't be enforced", place);
    if (key == "json_object") {
      QUIRE_ASSIGN(const bool wanted, read_bool(member.value(), place));
      if (!wanted) continue;
    }
    if (spec) {
      return field_error(field.name, "`{}` and `{}` both say what the answer must fit: give one",
                         name, place);
    }
    if (known) {
      QUIRE_ASSIGN(spec, constraint(key, member.value(), place));
    } else {
      spec = json_object_spec();
    }
    name = place;
  }
  if (!spec) {
    return field_error(field.name,
                       "`structured_outputs` needs one of json, regex, choice, grammar, "
                       "json_object and structural_tag");
  }
  QUIRE_TRY(read_options(*spec, *object));
  QUIRE_TRY(check_options_kind(*spec));
  return set_grammar(request, name, std::move(*spec));
}

Status read_guided(CommonRequest& request, const json::value& value,
                   const Field<CommonRequest>& field) {
  const std::string_view name = field.name;
  QUIRE_ASSIGN(auto spec, constraint(name.substr(std::string_view("guided_").size()), value, name));
  return set_grammar(request, name, std::move(spec));
}

Status read_guided_whitespace_pattern(CommonRequest& request, const json::value& value,
                                      const Field<CommonRequest>& field) {
  QUIRE_ASSIGN(auto pattern, read_string(value, field.name));
  if (!request.grammar || request.grammar_field != "guided_json") {
    return field_error(field.name, "`guided_whitespace_pattern` needs `guided_json`");
  }
  request.grammar->whitespace_pattern = std::move(pattern);
  request.grammar->has_whitespace_pattern = true;
  return {};
}

constexpr std::string_view kResponseFormatSchema = R"({"type": "object", "required": ["type"],
    "properties": {"type": {"enum": ["text", "json_object", "json_schema", "structural_tag"]}}})";
constexpr std::string_view kStructuredOutputsSchema = R"({"type": "object", "properties": {
    "json": {"type": ["object", "string"]}, "regex": {"type": "string"},
    "choice": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "grammar": {"type": "string"}, "structural_tag": {"type": ["object", "string"]},
    "json_object": {"type": "boolean"}, "disable_any_whitespace": {"type": "boolean"},
    "disable_additional_properties": {"type": "boolean"}, "whitespace_pattern": {"type": "string"}}})";
constexpr std::string_view kJsonSchema = R"({"type": ["object", "string"]})";
constexpr std::string_view kChoiceSchema =
    R"({"type": "array", "items": {"type": "string"}, "minItems": 1})";
constexpr std::string_view kTextSchema = R"({"type": "string"})";

}  // namespace

// guided_whitespace_pattern stands after what it speaks of: fields are read in this order.
std::span<const Field<CommonRequest>> structured_fields() {
  using R = CommonRequest;
  static constexpr std::array kTable{
      custom_field<R>("response_format", kResponseFormatSchema, &read_response_format)
          .is(kOpenAi | kVllm | kLlamaCpp, R"({"type": "text"})", "What the answer must fit"),
      custom_field<R>("structured_outputs", kStructuredOutputsSchema, &read_structured_outputs)
          .is(kVllm, "null", "What the answer must fit: one of json, regex, choice, grammar, ..."),
      custom_field<R>("guided_json", kJsonSchema, &read_guided)
          .is(kVllm, "null", "Older name of structured_outputs.json"),
      custom_field<R>("guided_regex", kTextSchema, &read_guided)
          .is(kVllm, "null", "Older name of structured_outputs.regex"),
      custom_field<R>("guided_choice", kChoiceSchema, &read_guided)
          .is(kVllm, "null", "Older name of structured_outputs.choice"),
      custom_field<R>("guided_grammar", kTextSchema, &read_guided)
          .is(kVllm, "null", "Older name of structured_outputs.grammar"),
      custom_field<R>("guided_whitespace_pattern", kTextSchema, &read_guided_whitespace_pattern)
          .is(kVllm, "null", "What may stand between tokens of JSON, with guided_json"),
  };
  return kTable;
}

Result<StructuredOutputDefaults> parse_structured_outputs_config(std::string_view text) {
  constexpr std::string_view kFlag = "--structured-outputs-config";
  StructuredOutputDefaults out;
  if (text.empty()) return out;
  const auto object = parse_object(text);
  if (!object) return field_error(kFlag, "{} must be a JSON object, but it is '{}'", kFlag, text);
  for (const auto& member : *object) {
    const std::string_view key(member.key().data(), member.key().size());
    if (key == "disable_any_whitespace") {
      QUIRE_ASSIGN(out.disable_any_whitespace, read_bool(member.value(), key));
    } else if (key == "disable_additional_properties") {
      QUIRE_ASSIGN(out.disable_additional_properties, read_bool(member.value(), key));
    } else if (key != "backend" && key != "disable_fallback") {
      return field_error(kFlag,
                         "{} does not know \"{}\": use disable_any_whitespace or "
                         "disable_additional_properties",
                         kFlag, key);
    }
  }
  return out;
}

}  // namespace quire
