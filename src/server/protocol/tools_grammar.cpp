// See tools_grammar.h.
#include "server/protocol/tools_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "server/protocol/call_writer.h"

namespace quire {
namespace {

namespace json = boost::json;
namespace tf = tag_format;
using tf::Format;
using Kind = CallForm::Kind;

// Calls of models tend to add what nobody asked for: only what the schema mentions is allowed,
// unless it says otherwise.
GrammarSpec closed(GrammarSpec spec) {
  spec.disable_additional_properties = true;
  return spec;
}
GrammarSpec spec_of(const json::value& schema) {
  GrammarSpec out;
  out.kind = GrammarSpec::Kind::kJsonSchema;
  out.text = json::serialize(schema);
  return closed(std::move(out));
}

std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

// The calls between the marks of all of them.
Result<Format> calls(const CallForm& form, const CallWriter& writer, bool parallel) {
  if (form.kind == Kind::kList) {
    return tf::sequence({tf::text(form.begin), tf::optional(tf::text(" ")), writer.list(parallel),
                         tf::text(form.end)});
  }
  QUIRE_ASSIGN(const auto call, writer.call());
  QUIRE_ASSIGN(auto other, writer.call(form.separator));
  const Format more = parallel ? tf::star(std::move(other)) : tf::text("");
  return tf::sequence({tf::text(form.begin), call, more, tf::text(form.end)});
}

// Free text, and behind the mark that begins calls nothing but them.
Result<Format> text_and_calls(const CallForm& form, const CallWriter& writer, bool parallel) {
  const bool around_all = !form.begin.empty();
  const std::string_view mark = around_all ? form.begin : form.call_begin;
  Format inner;
  if (around_all) {
    QUIRE_ASSIGN(inner, calls(form, writer, parallel));
  } else {
    QUIRE_ASSIGN(inner, writer.call());
  }
  // The mark has come with the trigger.
  Format rest = inner;
  rest.at("elements").as_array().front() = tf::text("");
  const auto tag = [&](std::string_view begin) { return tf::tag(begin, rest, ""); };
  const std::string_view trigger = without_trailing_space(mark);
  json::array triggers{json::string(trigger.data(), trigger.size())}, tags{tag(mark)};
  // <function=f> comes without <tool_call> too.
  const auto line = mark.find('\n');
  if (form.kind == Kind::kTags && !around_all && line != std::string_view::npos &&
      line + 1 < mark.size()) {
    const std::string_view inside = mark.substr(line + 1);
    triggers.emplace_back(json::string(inside.data(), inside.size()));
    tags.emplace_back(tag(inside));
  }
  return tf::triggered(std::move(triggers), std::move(tags), !parallel);
}

// The same where no mark begins a call: its first words with the function's name do.
Result<Format> text_and_bare_calls(const CallWriter& writer, bool parallel) {
  QUIRE_ASSIGN(const auto openings, writer.openings());
  json::array begun;
  std::string any;
  for (const auto& opening : openings) {
    begun.emplace_back(tf::sequence({tf::text_up_to(opening.pattern), opening.rest}));
    any += (any.empty() ? "" : "|") + opening.pattern;
  }
  const Format call = tf::any_of(std::move(begun));
  const Format text = tf::any_text_without(any);
  if (parallel) return tf::sequence({tf::star(call), text});
  return tf::any_of(json::array{call, text});
}

}  // namespace

GrammarSpec arguments_grammar(const ToolFunction& function) { return spec_of(schema_of(function)); }

GrammarSpec bare_calls_grammar(const ToolsInput& tools, bool parallel) {
  if (tools.choice == ToolChoice::kNamed) {
    const auto named = std::find_if(tools.functions.begin(), tools.functions.end(),
                                    [&](const auto& f) { return f.name == tools.name; });
    return arguments_grammar(*named);
  }
  CallForm list;
  list.kind = Kind::kList;
  list.arguments_key = "parameters";
  return spec_of(CallWriter(list, tools).list(parallel).at("json_schema"));
}

Result<GrammarSpec> calls_grammar(const CallForm& form, const ToolsInput& tools, bool parallel,
                                  bool after_thinking) {
  const CallWriter writer(form, tools);
  Format out;
  if (tools.forced()) {
    const bool several = parallel && tools.choice != ToolChoice::kNamed;
    QUIRE_ASSIGN(out, calls(form, writer, several));
    if (after_thinking) {
      const Format breaks = tf::any_of(json::array{tf::text("\n\n"), tf::text("\n")});
      out = tf::sequence({tf::optional(breaks), out});
    }
  } else {
    const bool marked = form.kind == Kind::kPython
                            ? form.begin != "["
                            : !form.begin.empty() || !form.call_begin.empty();
    auto made =
        marked ? text_and_calls(form, writer, parallel) : text_and_bare_calls(writer, parallel);
    if (!made) return tl::unexpected(made.error());
    out = std::move(*made);
  }
  return closed(tf::spec(std::move(out)));
}

GrammarSpec harmony_grammar(const ToolsInput& tools, const HarmonyAnswer& answer) {
  static const CallForm kForm{.kind = Kind::kHarmony};
  const auto message = [](std::string_view channel, Format content) {
    return tf::sequence({tf::text(fmt::format("<|channel|>{}<|message|>", channel)),
                         std::move(content), tf::text("<|end|><|start|>assistant")});
  };
  const std::int32_t budget = answer.thinking_budget;
  json::array parts;
  const Format preamble = message("commentary", tf::any_text());
  if (budget < 0) {
    parts.emplace_back(
        tf::star(tf::any_of(json::array{message("analysis", tf::any_text()), preamble})));
  } else {
    if (budget > 0) parts.emplace_back(tf::optional(message("analysis", tf::any_text_of(budget))));
    parts.emplace_back(tf::star(preamble));
  }
  json::array ends;
  if (tools.callable()) ends.emplace_back(CallWriter(kForm, tools).message());
  if (!tools.forced()) {
    ends.emplace_back(tf::sequence({tf::text("<|channel|>final<|message|>"),
                                    answer.content ? tf::part(*answer.content) : tf::any_text()}));
  }
  parts.emplace_back(tf::any_of(std::move(ends)));
  GrammarSpec out = tf::spec(tf::sequence(std::move(parts)));
  if (answer.content) {
    out.has_whitespace_pattern = answer.content->has_whitespace_pattern;
    out.whitespace_pattern = answer.content->whitespace_pattern;
    out.disable_any_whitespace = answer.content->disable_any_whitespace;
    out.disable_additional_properties = answer.content->disable_additional_properties;
    return out;
  }
  return closed(std::move(out));
}

}  // namespace quire
