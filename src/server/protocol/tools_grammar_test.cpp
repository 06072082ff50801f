// What grammars of calls take, and that the family's own reader reads what they made a model write.
#include "server/protocol/tools_grammar.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "dialect/dialects.h"
#include "dialect/read_whole.h"
#include "text/test_vocab.h"

namespace quire {
namespace {

constexpr const char* kFunctions = R"([
    {"type": "function", "function": {"name": "get_weather", "strict": true, "parameters": {
      "type": "object", "properties": {
        "city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]},
        "days": {"$ref": "#/$defs/few"}, "code": {"type": "string", "pattern": "^[A-Z]{2}$"}},
      "required": ["city", "days"], "$defs": {"few": {"type": "integer", "minimum": 1,
      "maximum": 9}}}}},
    {"type": "function", "function": {"name": "ping"}}])";

ToolsInput tools_of(std::string_view text, ToolChoice choice, std::string name = {}) {
  ToolsInput out;
  EXPECT_TRUE(read_tools(out, boost::json::parse(text)));
  out.choice = choice;
  out.name = std::move(name);
  return out;
}

// Marks that some of the families have as special tokens.
const std::vector<std::string> kSpecial{"<end>",
                                        "[TOOL_CALLS]",
                                        "[ARGS]",
                                        "<|tool_call|>",
                                        "<|/tool_call|>",
                                        "<|action_start|>",
                                        "<|plugin|>",
                                        "<|action_end|>",
                                        "<|START_ACTION|>",
                                        "<|END_ACTION|>",
                                        "<｜tool▁calls▁begin｜>",
                                        "<｜tool▁call▁begin｜>",
                                        "<｜tool▁sep｜>",
                                        "<｜tool▁call▁end｜>",
                                        "<｜tool▁calls▁end｜>",
                                        "<|tool_calls_section_begin|>",
                                        "<|tool_call_begin|>",
                                        "<|tool_call_argument_begin|>",
                                        "<|tool_call_end|>",
                                        "<|tool_calls_section_end|>",
                                        "<|tool_call_start|>",
                                        "<|\"|>",
                                        "<|tool_call>",
                                        "<tool_call|>",
                                        "<|channel|>",
                                        "<|message|>",
                                        "<|start|>",
                                        "<|end|>",
                                        "<|constrain|>",
                                        "<|call|>"};

class CallsGrammarTest : public testing::Test {
 protected:
  CallsGrammarTest() {
    tokenizer_ = Tokenizer::from_vocab(test::byte_level_spec({}, kSpecial)).value();
    const std::vector<TokenId> ends{*tokenizer_->token_id("<end>"),
                                    *tokenizer_->token_id("<|call|>")};
    compiler_ = std::make_unique<GrammarCompiler>(tokenizer_.get(), ends, tokenizer_->vocab_size());
  }
  // Whether `text` is a whole answer. An answer that is not one may still begin one.
  bool takes(const GrammarSpec& spec, std::string_view text) {
    const auto grammar = compiler_->compile(spec);
    if (!grammar) {
      ADD_FAILURE() << grammar.error().message << "\n" << spec.text;
      return false;
    }
    const auto matcher = (*grammar)->matcher({}, true).value();
    const auto ids = tokenizer_->encode(text, false).value();
    std::vector<std::uint32_t> words(matcher->num_mask_words());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_TRUE(matcher->fill_mask(words));
      const auto id = static_cast<std::size_t>(ids[i]);
      const bool allowed = (words[id / 32] >> (id % 32) & 1u) != 0;
      EXPECT_EQ(matcher->accept(ids[i]).value(), allowed) << text;
      if (!allowed) {
        stopped_at_ = tokenizer_->decode({ids.begin(), ids.begin() + static_cast<long>(i)}, false);
        return false;
      }
    }
    return matcher->accepting().value();
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<GrammarCompiler> compiler_;
  std::string stopped_at_;
};

struct Written {
  const char *parser, *hint, *call,
      *second;      // second: a call of ping behind it; null: there can't be
  const char* bad;  // days are no number
};

const Written kWritten[] = {
    {"hermes", "",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": "
     "3}}\n</tool_call>",
     "\n<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": \"x"},
    {"llama3_json", "", R"({"name": "get_weather", "parameters": {"city": "Oslo", "days": 3}})",
     R"(; {"name": "ping", "parameters": {}})",
     R"({"name": "get_weather", "parameters": {"city": "Oslo", "days": "x)"},
    {"mistral", "[ARGS]", R"([TOOL_CALLS]get_weather[ARGS]{"city": "Oslo", "days": 3})",
     "[TOOL_CALLS]ping[ARGS]{}", R"([TOOL_CALLS]get_weather[ARGS]{"city": "Oslo", "days": "x)"},
    {"mistral", "",
     R"([TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}})", nullptr,
     R"([TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo", "days": "x)"},
    {"granite", "",
     R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}})", nullptr,
     R"(<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Oslo", "days": "x)"},
    {"internlm", "",
     "<|action_start|><|plugin|>\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", "
     "\"days\": 3}}<|action_end|>",
     "\n<|action_start|><|plugin|>\n{\"name\": \"ping\", \"parameters\": {}}<|action_end|>",
     "<|action_start|><|plugin|>\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\", "
     "\"days\": \"x"},
    {"deepseek_v3", "```json",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"
     "\"city\": \"Oslo\", "
     "\"days\": 3}\n```<｜tool▁call▁end｜>",
     "\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{}\n```<｜tool▁call▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"
     "\"city\": \"Oslo\", "
     "\"days\": \"x"},
    {"deepseek_v31", "",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", "
     "\"days\": "
     "3}<｜tool▁call▁end｜>",
     "<｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Oslo\", "
     "\"days\": \"x"},
    {"kimi_k2", "",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_"
     "begin|>{\"city\": "
     "\"Oslo\", \"days\": 3}<|tool_call_end|>",
     "<|tool_call_begin|>functions.ping:1<|tool_call_argument_begin|>{}<|tool_call_end|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_"
     "begin|>{\"city\": "
     "\"Oslo\", \"days\": \"x"},
    {"qwen3_coder", "",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</"
     "parameter>\n<parameter=days>\n3\n</parameter>\n"
     "</function>\n</tool_call>",
     "\n<tool_call>\n<function=ping>\n</function>\n</tool_call>",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</"
     "parameter>\n<parameter=days>\nx"},
    {"seed_oss", "",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</"
     "parameter>\n<parameter=days>3</parameter>\n"
     "</function>\n</seed:tool_call>",
     "\n<seed:tool_call>\n<function=ping>\n</function>\n</seed:tool_call>",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</"
     "parameter>\n<parameter=days>x"},
    {"glm45", "",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</"
     "arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>",
     "\n<tool_call>ping\n</tool_call>",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</"
     "arg_key>\n<arg_value>x"},
    {"glm47", "</arg_key><arg_value>",
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value><arg_key>days</"
     "arg_key><arg_value>3"
     "</arg_value></tool_call>",
     "<tool_call>ping</tool_call>",
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value><arg_key>days</"
     "arg_key><arg_value>x"},
    {"minimax_m2", "",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n<parameter "
     "name=\"days\">3</parameter>\n</invoke>",
     "\n<invoke name=\"ping\">\n</invoke>",
     "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Oslo</parameter>\n<parameter "
     "name=\"days\">x"},
    {"pythonic", "", R"([get_weather(city="Oslo", days=3))", ", ping()",
     R"([get_weather(city="Oslo", days="x)"},
    {"olmo3", "", "<function_calls>\nget_weather(city=\"Oslo\", days=3)", "\nping()",
     "<function_calls>\nget_weather(city=\"Oslo\", days=\"x"},
};

// What ends the section of a family's calls.
std::string closing(const Written& w) {
  const std::string_view text(w.call);
  if (text.starts_with("[TOOL_CALLS][")) return "]";
  if (text.starts_with("<|tool_call|>[")) return "]";
  if (text.starts_with("[get_weather")) return "]";
  return std::string(call_form(w.parser, w.hint)->end);
}

TEST_F(CallsGrammarTest, ForcedCallsAreWrittenAsTheFamilyReadsThem) {
  const auto required = tools_of(kFunctions, ToolChoice::kRequired);
  const auto named = tools_of(kFunctions, ToolChoice::kNamed, "get_weather");
  for (const Written& w : kWritten) {
    const CallForm* form = call_form(w.parser, w.hint);
    ASSERT_NE(form, nullptr) << w.parser;
    const auto many = calls_grammar(*form, required, true, false);
    ASSERT_TRUE(many) << w.parser << ": " << many.error().message;
    const auto one = calls_grammar(*form, required, false, false).value();
    const auto just = calls_grammar(*form, named, true, true).value();
    const std::string call = w.call + closing(w);
    EXPECT_TRUE(takes(*many, call)) << call << "\nstopped at " << stopped_at_;
    EXPECT_TRUE(takes(one, call)) << call << "\nstopped at " << stopped_at_;
    EXPECT_TRUE(takes(just, "\n\n" + call)) << call << "\nstopped at " << stopped_at_;
    EXPECT_FALSE(takes(*many, "")) << w.parser;
    EXPECT_FALSE(takes(*many, "Sure.")) << w.parser;
    EXPECT_FALSE(takes(*many, w.bad)) << w.parser;
    EXPECT_TRUE(std::string_view(w.bad).starts_with(stopped_at_)) << stopped_at_;
    auto options = options_of(w.parser);
    options.tools = required.set;
    const Whole whole = read(options, call);
    ASSERT_EQ(whole.calls.size(), 1U) << call;
    EXPECT_EQ(whole.content, "");
    EXPECT_EQ(whole.calls[0].name, "get_weather");
    EXPECT_EQ(boost::json::parse(whole.calls[0].arguments),
              boost::json::parse(R"({"city": "Oslo", "days": 3})"));
    if (w.second == nullptr) continue;
    const std::string two = w.call + std::string(w.second) + closing(w);
    EXPECT_TRUE(takes(*many, two)) << two << "\nstopped at " << stopped_at_;
    EXPECT_FALSE(takes(one, two)) << two;
    EXPECT_FALSE(takes(just, two)) << two;
    EXPECT_EQ(read(options, two).calls.size(), 2U) << two;
  }
}

TEST_F(CallsGrammarTest, StrictFunctionsLeaveTextFree) {
  const auto tools = tools_of(kFunctions, ToolChoice::kAuto);
  for (const Written& w : kWritten) {
    const auto spec = calls_grammar(*call_form(w.parser, w.hint), tools, true, false);
    ASSERT_TRUE(spec) << w.parser << ": " << spec.error().message;
    const std::string call = w.call + closing(w);
    for (const std::string& text : {std::string(), std::string("Sure, <b>1</b> {\"a\": [1]}"), call,
                                    "Let me see.\n" + call, call + "\nDone."})
      EXPECT_TRUE(takes(*spec, text)) << w.parser << ": " << text << "\nstopped at " << stopped_at_;
    EXPECT_FALSE(takes(*spec, w.bad)) << w.parser;
    EXPECT_TRUE(std::string_view(w.bad).starts_with(stopped_at_)) << stopped_at_;
  }
}

TEST_F(CallsGrammarTest, QwensCallsAreHeldWithoutTheirOuterMarkToo) {
  const auto spec = calls_grammar(*call_form("qwen3_coder", ""),
                                  tools_of(kFunctions, ToolChoice::kAuto), true, false)
                        .value();
  const std::string begin =
      "So.\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n";
  EXPECT_TRUE(takes(spec, begin + "3\n</parameter>\n</function>\n</tool_call>")) << stopped_at_;
  EXPECT_FALSE(takes(spec, begin + "x"));
}

TEST_F(CallsGrammarTest, BareTextKeepsToItsSchema) {
  const auto spec = calls_grammar(*call_form("seed_oss", ""),
                                  tools_of(kFunctions, ToolChoice::kRequired), true, false)
                        .value();
  const auto call = [](std::string_view more) {
    return "<seed:tool_call>\n<function=get_weather>\n<parameter=city>O <b>\n</parameter>\n" +
           std::string(more) + "</function>\n</seed:tool_call>";
  };
  const std::string days = "<parameter=days>3</parameter>\n";
  EXPECT_TRUE(takes(spec, call("<parameter=unit>F</parameter>\n" + days))) << stopped_at_;
  EXPECT_FALSE(takes(spec, call("<parameter=unit>K</parameter>\n" + days)));
  EXPECT_TRUE(takes(spec, call(days + "<parameter=code>NO</parameter>\n"))) << stopped_at_;
  EXPECT_FALSE(takes(spec, call(days + "<parameter=code>NOR</parameter>\n")));
  EXPECT_FALSE(takes(spec, call("<parameter=days>10</parameter>\n")));
  EXPECT_FALSE(takes(spec, call("")));
}

TEST_F(CallsGrammarTest, GemmasCalls) {
  const auto tools = tools_of(R"([{"type": "function", "function": {"name": "f", "strict": true,
      "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type":
      "integer"}, "ok": {"type": "boolean"}}, "required": ["n"]}}}])",
                              ToolChoice::kRequired);
  const auto spec = calls_grammar(*call_form("functiongemma", ""), tools, true, false).value();
  const std::string call =
      "<start_function_call>call:f{a:<escape>x, {y}<escape>,n:3,ok:true}<end_function_call>";
  EXPECT_TRUE(takes(spec, call)) << stopped_at_;
  EXPECT_TRUE(takes(spec, "<start_function_call>call:f{n:3}<end_function_call>")) << stopped_at_;
  EXPECT_FALSE(takes(spec, "<start_function_call>call:f{ok:true}<end_function_call>"));
  auto options = options_of("functiongemma");
  options.tools = tools.set;
  EXPECT_EQ(boost::json::parse(read(options, call).calls.at(0).arguments),
            boost::json::parse(R"({"a": "x, {y}", "n": 3, "ok": true})"));
  EXPECT_TRUE(takes(calls_grammar(*call_form("gemma4", ""), tools, true, false).value(),
                    "<|tool_call>call:f{a:<|\"|>x<|\"|>,n:3}<tool_call|>"))
      << stopped_at_;
}

TEST_F(CallsGrammarTest, WhatAFormCantHoldIsTold) {
  const auto tools = tools_of(R"([{"type": "function", "function": {"name": "g"}},
      {"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object",
       "properties": {"a": {"type": "string", "format": "date"}}}}}])",
                              ToolChoice::kAuto);
  const auto spec = calls_grammar(*call_form("qwen3_coder", ""), tools, true, false);
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().param, "tools[1].function.parameters");
  EXPECT_NE(spec.error().message.find("\"format\""), std::string::npos);
  EXPECT_TRUE(calls_grammar(*call_form("hermes", ""), tools, true, false));
}

TEST_F(CallsGrammarTest, HarmonysMessages) {
  const std::string thought = "<|channel|>analysis<|message|>Hm. <b><|end|><|start|>assistant";
  const std::string final = "<|channel|>final<|message|>";
  const std::string call =
      "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
      "{\"city\": \"Oslo\", \"days\": 3}";
  const auto strict = tools_of(kFunctions, ToolChoice::kAuto);
  const auto any = harmony_grammar(strict, {});
  for (const std::string& text :
       {final + "Yes.", thought + final, thought + thought + call, call,
        "<|channel|>commentary<|message|>So.<|end|><|start|>assistant" + call})
    EXPECT_TRUE(takes(any, text)) << text << "\nstopped at " << stopped_at_;
  EXPECT_FALSE(takes(any, "<|channel|>commentary to=functions.get_weather<|message|>{\"days\": 0"));
  EXPECT_FALSE(takes(any, "Yes."));
  const auto forced = harmony_grammar(tools_of(kFunctions, ToolChoice::kRequired), {});
  EXPECT_TRUE(takes(forced, thought + call)) << stopped_at_;
  EXPECT_TRUE(takes(forced, " to=functions.ping<|channel|>commentary json<|message|>{}"))
      << stopped_at_;
  EXPECT_FALSE(takes(forced, final));

  HarmonyAnswer limits{.thinking_budget = 3, .content = json_object_spec()};
  const auto limited = harmony_grammar({}, limits);
  const std::string begin = "<|channel|>analysis<|message|>",
                    end = "<|end|><|start|>assistant" + final;
  EXPECT_TRUE(takes(limited, begin + "abc" + end + "{\"a\": 1}")) << stopped_at_;
  EXPECT_TRUE(takes(limited, begin + "a" + end + "{}")) << stopped_at_;
  EXPECT_FALSE(takes(limited, begin + "abcd"));
  EXPECT_FALSE(takes(limited, begin + "abc" + end + "x"));
  EXPECT_FALSE(takes(limited, begin + "abc<|end|><|start|>assistant" + begin));
  limits.thinking_budget = 0;
  EXPECT_FALSE(takes(harmony_grammar({}, limits), begin));
  EXPECT_TRUE(takes(harmony_grammar({}, limits), final + "{}")) << stopped_at_;
}

TEST(BareCallsGrammar, NamedIsTheFunctionsSchema) {
  const std::string_view functions =
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
          {"type": "function", "function": {"name": "g"}}])";
  const auto f = bare_calls_grammar(tools_of(functions, ToolChoice::kNamed, "f"), true);
  EXPECT_EQ(f.text, R"({"type":"object"})");
  EXPECT_TRUE(f.disable_additional_properties);
  EXPECT_EQ(bare_calls_grammar(tools_of(functions, ToolChoice::kNamed, "g"), true).text,
            R"({"type":"object","properties":{},"additionalProperties":false})");
}

TEST(BareCallsGrammar, RequiredIsAListOfCalls) {
  const auto tools = tools_of(
      R"([{"type": "function", "function": {"name": "f"}},
          {"type": "function", "function": {"name": "g", "parameters": {"type": "object",
           "properties": {"a": {"$ref": "#/$defs/x"}, "$ref": {"$ref": "#"}},
           "$defs": {"x": {"type": "null"}}}}}])",
      ToolChoice::kRequired);
  const auto many = boost::json::parse(bare_calls_grammar(tools, true).text);
  EXPECT_EQ(many.at("minItems").as_int64(), 1);
  EXPECT_FALSE(many.as_object().contains("maxItems"));
  const auto& second = many.at("items").at("anyOf").at(1).at("properties");
  EXPECT_EQ(second.at("name").at("enum").at(0).as_string(), "g");
  // References follow their schema to its new place.
  const auto& properties = second.at("parameters").at("properties");
  EXPECT_EQ(properties.at("a").at("$ref").as_string(),
            "#/items/anyOf/1/properties/parameters/$defs/x");
  EXPECT_EQ(properties.at("$ref").at("$ref").as_string(), "#/items/anyOf/1/properties/parameters");
  const auto one = boost::json::parse(bare_calls_grammar(tools, false).text);
  EXPECT_EQ(one.at("maxItems").as_int64(), 1);
}

}  // namespace
}  // namespace quire
