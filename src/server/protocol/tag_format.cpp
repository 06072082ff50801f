// See tag_format.h.
#include "server/protocol/tag_format.h"

#include <boost/json/serialize.hpp>

#include "server/protocol/json_parse.h"

namespace quire::tag_format {

namespace json = boost::json;

namespace {

json::string str(std::string_view text) { return json::string(text.data(), text.size()); }

Format kind(const char* type) { return {{"type", type}}; }

Format with_content(const char* type, Format content) {
  Format out = kind(type);
  out["content"] = std::move(content);
  return out;
}

}  // namespace

Format text(std::string_view literal) {
  Format out = kind("const_string");
  out["value"] = str(literal);
  return out;
}

Format sequence(json::array elements) {
  Format out = kind("sequence");
  out["elements"] = std::move(elements);
  return out;
}
Format sequence(std::initializer_list<Format> elements) {
  json::array list;
  for (const Format& element : elements) list.emplace_back(element);
  return sequence(std::move(list));
}

Format any_of(json::array elements) {
  if (elements.size() == 1) return elements.front().as_object();
  Format out = kind("or");
  out["elements"] = std::move(elements);
  return out;
}

Format optional(Format content) { return with_content("optional", std::move(content)); }
Format star(Format content) { return with_content("star", std::move(content)); }

Format schema(json::value json_schema) {
  Format out = kind("json_schema");
  out["json_schema"] = std::move(json_schema);
  return out;
}

Format regex(std::string_view pattern) {
  Format out = kind("regex");
  out["pattern"] = str(pattern);
  return out;
}

Format any_text() { return kind("any_text"); }
Format any_text_without(std::string_view pattern) {
  Format out = any_text();
  out["without"] = str(pattern);
  return out;
}
Format any_text_of(std::int32_t max_tokens) {
  Format out = any_text();
  out["max_tokens"] = max_tokens;
  return out;
}
Format text_up_to(std::string_view pattern) {
  Format out = kind("text_up_to");
  out["pattern"] = str(pattern);
  return out;
}

Format tag(std::string_view begin, Format content, std::string_view end) {
  Format out = with_content("tag", std::move(content));
  out["begin"] = str(begin);
  out["end"] = str(end);
  return out;
}
Format tag(std::string_view begin, Format content, json::array ends) {
  Format out = tag(begin, std::move(content), std::string_view());
  out["end"] = std::move(ends);
  return out;
}
Format matching_text(std::string_view begin, std::string_view pattern, std::string_view end) {
  Format content = any_text();
  content["pattern"] = str(pattern);
  return tag(begin, std::move(content), end);
}

Format triggered(json::array triggers, json::array tags, bool stop_after_first) {
  Format out = kind("triggered_tags");
  out["triggers"] = std::move(triggers);
  out["tags"] = std::move(tags);
  out["stop_after_first"] = stop_after_first;
  return out;
}

Format part(const GrammarSpec& spec) {
  using Kind = GrammarSpec::Kind;
  switch (spec.kind) {
    case Kind::kJsonSchema:
      return schema(parse_checked(spec.text));
    case Kind::kRegex:
      return regex(spec.text);
    case Kind::kChoice: {
      json::array choices;
      const json::value list = parse_checked(spec.text);
      for (const auto& choice : list.as_array())
        choices.emplace_back(text({choice.as_string().data(), choice.as_string().size()}));
      return any_of(std::move(choices));
    }
    case Kind::kGrammar: {
      Format out = kind("grammar");
      out["grammar"] = str(spec.text);
      return out;
    }
    case Kind::kStructuralTag: {
      const json::object tag = parse_checked(spec.text).as_object();
      if (const auto* format = tag.if_contains("format")) return format->as_object();
      json::array tags;
      for (const auto& one : tag.at("structures").as_array()) {
        Format made = with_content("tag", schema(one.at("schema")));
        made["begin"] = one.at("begin");
        made["end"] = one.at("end");
        tags.emplace_back(std::move(made));
      }
      return triggered(tag.at("triggers").as_array(), std::move(tags), false);
    }
  }
  return any_text();
}

std::string regex_escaped(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    if (std::string_view(R"(\.+*?()|[]{}^$#&-~/)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

GrammarSpec spec(Format format) {
  GrammarSpec out;
  out.kind = GrammarSpec::Kind::kStructuralTag;
  out.text =
      json::serialize(json::object{{"type", "structural_tag"}, {"format", std::move(format)}});
  return out;
}

}  // namespace quire::tag_format
