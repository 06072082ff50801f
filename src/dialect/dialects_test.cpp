// Every family's way of writing calls, read in one piece, byte by byte and in pieces of any size.
#include "dialect/dialects.h"

#include <random>

#include "dialect/read_whole.h"
#include "dialect/tool_parser.h"

namespace quire {
namespace {

struct Example {
  std::string tools, text;
  Whole whole;
};

const std::vector<Example>& examples() {
  static const std::vector<Example> kExamples{
      {"hermes",
       "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Paris\"}}\n</tool_call>",
       {"", "Let me see.\n", {kParis}}},
      {"hermes",
       "<tool_call>{\"arguments\": {\"city\": \"Paris\"}, \"name\": \"get_weather\"}"
       "</tool_call>\n<tool_call>\n{\"name\":\"ping\"}</tool_call>\n",
       {"", "", {kParis, kPing}}},
      {"hermes",
       "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": "
       "\\\"Paris\\\"}\"}</tool_call> Done.",
       {"", " Done.", {kParis}}},
      {"llama3_json",
       "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}; "
       "{\"name\": \"ping\", \"parameters\": {}}",
       {"", "", {kParis, kPing}}},
      {"llama3_json",
       "<|python_tag|>{\"type\": \"function\", \"function\": {\"name\": "
       "\"get_weather\", \"parameters\": {\"city\": \"Paris\"}}}",
       {"", "", {kParis}}},
      {"pythonic", "[get_weather(city='Paris'), ping()]", {"", "", {kParis, kPing}}},
      {"pythonic",
       "[get_weather(city=\"a, b)\\n\", days=-2, flags=[True, None, (1, .5)])]",
       {"",
        "",
        {{"get_weather", R"({"city": "a, b)\n", "days": -2, "flags": [true, null, [1, 0.5]]})"}}}},
      {"lfm2",
       "<|tool_call_start|>[get_weather(city=\"Paris\")]<|tool_call_end|>Checking.",
       {"", "Checking.", {kParis}}},
      {"olmo3",
       "<function_calls>\nget_weather(city=\"Paris\")\nping()\n</function_calls>",
       {"", "", {kParis, kPing}}},
      {"mistral",
       "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}, "
       "\"id\": \"abc123def\"}, {\"name\": \"ping\", \"arguments\": {}}]",
       {"", "", {kParis, kPing}}},
      {"mistral",
       "Wait.[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]ping[CALL_ID]"
       "x1[ARGS]{}",
       {"", "Wait.", {kParis, kPing}}},
      {"mistral", "[TOOL_CALLS]get_weather{\"city\": \"Paris\"}", {"", "", {kParis}}},
      {"qwen3_coder",
       "I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n"
       "</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
       {"", "I look.\n", {{"get_weather", R"({"city": "Paris", "days": 3})"}}}},
      {"qwen3_coder",
       "<function=get_weather>\n<parameter=city>\nA\n\"B\" <i>\n</parameter>\n<parameter"
       "=note>null</parameter><parameter=flags>[True, 'x']</parameter></function>\n"
       "<tool_call><function=ping>\n</function></tool_call>",
       {"",
        "",
        {{"get_weather", R"({"city": "A\n\"B\" <i>", "note": null, "flags": [true, "x"]})"},
         kPing}}},
      {"seed_oss",
       "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n"
       "</function>\n</seed:tool_call>",
       {"", "", {kParis}}},
      {"glm45",
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
       "</tool_call>\n<tool_call>ping</tool_call>",
       {"", "", {kParis, kPing}}},
      {"minimax_m2",
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">"
       "Paris</parameter>\n</invoke>\n<invoke name=\"ping\">\n</invoke>\n"
       "</minimax:tool_call>",
       {"", "", {kParis, kPing}}},
      {"deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
       "```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>"
       "function<｜tool▁sep｜>ping\n```json\n{}\n```<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       {"", "", {kParis, kPing}}},
      {"deepseek_v31",
       "Yes.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
       "{\"city\": \"Paris\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"", "Yes.", {kParis}}},
      {"kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
       "<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|>"
       "<|tool_calls_section_end|>",
       {"", "", {kParis}}},
      {"granite",
       "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]",
       {"", "", {kParis}}},
      {"phi4_mini_json",
       "functools[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]",
       {"", "", {kParis}}},
      {"phi4_mini_json", "Use functools.reduce.", {"", "Use functools.reduce.", {}}},
      {"hunyuan_a13b",
       "<tool_calls>[{\"name\": \"ping\", \"arguments\": null}]</tool_calls>",
       {"", "", {kPing}}},
      {"cohere_command",
       "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
       "\"parameters\": {\"city\": \"Paris\"}}]<|END_ACTION|>",
       {"", "", {kParis}}},
      {"internlm",
       "<|action_start|><|plugin|>\n{\"name\": \"ping\", \"parameters\": {}}<|action_end|>",
       {"", "", {kPing}}},
      {"functiongemma",
       "<start_function_call>call:get_weather{city:<escape>Pa\"ris<escape>,days:3,"
       "flags:[<escape>a<escape>,true,{x:1}]}<end_function_call>",
       {"",
        "",
        {{"get_weather", R"({"city":"Pa\"ris", "days":3, "flags":["a", true, {"x":1}]})"}}}},
      {"gemma4",
       "Hm.<|tool_call>call:ping{}<tool_call|><|tool_call>call:get_weather{city:<|\"|>"
       "Oslo<|\"|>}<tool_call|>",
       {"", "Hm.", {kPing, {"get_weather", R"({"city":"Oslo"})"}}}},
      {"gemma3", "```tool_code\n[get_weather(city=\"Paris\")]\n```", {"", "", {kParis}}},
      {"openai",
       "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>"
       "commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to="
       "functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\"}<|call|>",
       {"Need it.", "I look.", {kParis}}},
      {"openai",
       " to=functions.ping<|channel|>commentary json<|message|>",
       {"", "", {{"ping", ""}}}},
      {"openai", "<|channel|>final<|message|>Hello<|return|>", {"", "Hello", {}}},
      {"openai", "Hello", {"", "Hello", {}}},
  };
  return kExamples;
}

TEST(Dialects, EachFamilyIsRead) {
  for (const auto& example : examples())
    EXPECT_EQ(read(options_of(example.tools), example.text), example.whole) << example.tools << "\n"
                                                                            << example.text;
}

TEST(Dialects, AnyCutGivesTheSame) {
  for (const auto& example : examples()) check_cuts(options_of(example.tools), example.text);
}

// Every beginning of an example, as the length limit leaves it: the name of a call that was begun
// stays, whatever is not part of a call is content.
TEST(Dialects, HalfWrittenAnswersAreReadAlikeInAnyCut) {
  for (const auto& example : examples()) {
    const auto options = options_of(example.tools);
    for (std::size_t size = 0; size <= example.text.size(); ++size) {
      const std::string_view text = std::string_view(example.text).substr(0, size);
      const Whole whole = read(options, text);
      ASSERT_EQ(read(options, text, each_byte(text)), whole) << text;
      for (std::size_t i = 0; i < whole.calls.size() && i < example.whole.calls.size(); ++i)
        ASSERT_EQ(whole.calls[i].name, example.whole.calls[i].name) << text;
    }
  }
}

TEST(Dialects, HalfWrittenCallsAreGivenAsSuch) {
  const auto call_of = [](std::string tools, std::string_view text) {
    const Whole whole = read(options_of(std::move(tools)), text);
    EXPECT_EQ(whole.content, "") << text;
    return whole.calls.size() == 1 ? whole.calls[0] : Call{};
  };
  EXPECT_EQ(
      call_of("hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa"),
      (Call{"get_weather", "{\"city\": \"Pa"}));
  EXPECT_EQ(call_of("hermes", "<tool_call>{\"name\": \"get_weather\", \"argu"),
            (Call{"get_weather", ""}));
  EXPECT_EQ(call_of("qwen3_coder", "<tool_call><function=get_weather><parameter=city>Pa"),
            (Call{"get_weather", "{\"city\": \"Pa"}));
  EXPECT_EQ(call_of("pythonic", "[get_weather(days=3, city='Pa"),
            (Call{"get_weather", "{\"days\": 3, \"city\": 'Pa"}));
  EXPECT_EQ(call_of("gemma4", "<|tool_call>call:get_weather{city:<|\"|>Pa"),
            (Call{"get_weather", "{\"city\":\"Pa"}));
  EXPECT_EQ(call_of("mistral", "[TOOL_CALLS]get_weather{\"ci"), (Call{"get_weather", "{\"ci"}));
}

TEST(Dialects, WhatOnlyLooksLikeACallIsContent) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"hermes", "<tool_call>not json</tool_call> and more"},
      {"hermes", "<tool_call>{\"name\": 3, \"arguments\": {}}</tool_call>"},
      {"hermes", "<tool_call>{\"arguments\": {}}</tool_call>"},
      {"hermes", "a < b, <tool_cal and <tool"},
      {"hermes", "<tool_call>{\"na"},
      {"llama3_json", "{\"answer\": 42}"},
      {"llama3_json", "{\"name\": \"unknown\", \"parameters\": {}}"},
      {"llama3_json", "Say {\"name\": \"ping\", \"parameters\": {}} aloud"},
      {"pythonic", "[1, 2, 3] is a list"},
      {"pythonic", "[unknown(a=1)]"},
      {"pythonic", "[get_weather(city=Paris)]"},
      {"mistral", "[TOOL_CALLS]hello there"},
      {"glm45", "<tool_call>some words\n"},
      {"qwen3_coder", "<tool_call>\n{\"name\": \"ping\"}\n</tool_call>"},
      {"deepseek_v3", "<｜tool▁calls▁begin｜>nothing"},
      {"kimi_k2", "<|tool_calls_section_begin|> no"},
      {"gemma4", "<|tool_call>ping()<tool_call|>"},
      {"hermes", "  \n white space stays \n"},
      {"hermes", " \n"},
  };
  for (const auto& [family, text] : cases) {
    EXPECT_EQ(read(options_of(family), text), (Whole{"", text, {}})) << family;
    check_cuts(options_of(family), text);
  }
}

// What was looked through for the end of a name is looked through again for the beginning of a
// call.
TEST(Dialects, ACallAfterWhatIsTooLongForAName) {
  for (const std::size_t size : {std::size_t{200}, kMaxNameBytes + 1}) {
    const std::string text = "<tool_call>" + std::string(size, '*');
    const std::string call = "<tool_call>ping" + std::string(100, ' ') + "\n</tool_call>";
    EXPECT_EQ(read(options_of("glm45"), text + call), (Whole{"", text, {kPing}})) << size;
    check_cuts(options_of("glm45"), text + call);
  }
}

TEST(Dialects, BrokenArgumentsStayArguments) {
  const auto whole =
      read(options_of("hermes"),
           "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": oops}}</tool_call>.");
  EXPECT_EQ(whole, (Whole{"", ".", {{"ping", "{\"a\": oops}}"}}}));
}

TEST(Dialects, LineBreaksInsideTextsAreEscaped) {
  const auto whole =
      read(options_of("hermes"),
           "<tool_call>{\"name\": \"ping\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>");
  EXPECT_EQ(whole.calls.at(0).arguments, "{\"a\": \"x\\ny\"}");
}

TEST(Dialects, WithoutFunctionsCallsAreText) {
  auto options = options_of("hermes");
  options.calls = false;
  const std::string text = "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(read(options, text), (Whole{"", text, {}}));
}

// Texts made of the pieces of all families, in any order.
TEST(Dialects, AnyTextIsReadAlikeInAnyCut) {
  std::vector<std::string> pieces{"{",
                                  "}",
                                  "[",
                                  "]",
                                  "\"",
                                  ",",
                                  ":",
                                  " ",
                                  "\n",
                                  "ping",
                                  "get_weather",
                                  "\"name\"",
                                  "\"arguments\": {",
                                  "(",
                                  ")",
                                  "=",
                                  "'",
                                  "\\",
                                  "1",
                                  "é",
                                  "call:",
                                  "{\"name\": \"ping\", \"arguments\": {\"a\": 1}}",
                                  ";",
                                  "ping()",
                                  "[ping(a=1)]",
                                  "<function=ping>",
                                  "<parameter=a>",
                                  "</parameter>",
                                  "</function>",
                                  "```"};
  for (const auto name : tool_parser_names())
    for (const auto mark : marks_of({std::string(name), "qwen3"})) pieces.emplace_back(mark);
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return std::size_t{random()} % n; };
  for (const auto name : tool_parser_names()) {
    const auto options = options_of(std::string(name), "qwen3");
    const auto own = marks_of(options.dialect);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (std::size_t n = below(16); n > 0; --n)
        text += below(3) == 0 && !own.empty() ? std::string(own[below(own.size())])
                                              : pieces[below(pieces.size())];
      const Whole whole = read(options, text);
      ASSERT_EQ(read(options, text, each_byte(text)), whole) << name << "\n" << text;
      std::vector<std::size_t> cuts;
      for (std::size_t at = below(5); at < text.size(); at += 1 + below(9)) cuts.push_back(at);
      ASSERT_EQ(read(options, text, cuts), whole) << name << "\n" << text;
    }
  }
}

// Examples with bytes lost, doubled and changed.
TEST(Dialects, DamagedAnswersAreReadAlikeInAnyCut) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return std::size_t{random()} % n; };
  for (const auto& example : examples()) {
    const auto options = options_of(example.tools, "qwen3");
    for (int round = 0; round < 200; ++round) {
      std::string text = example.text + example.text;
      for (std::size_t n = 1 + below(4); n > 0 && text.size() > 8; --n) {
        const std::size_t at = below(text.size());
        switch (below(3)) {
          case 0:
            text.erase(at, 1 + below(6));
            break;
          case 1:
            text.insert(at, text.substr(below(text.size()), 1 + below(12)));
            break;
          default:
            text[at] = "{}[]\"',:<>\\ \n()=|x1"[below(20)];
        }
      }
      const Whole whole = read(options, text);
      ASSERT_EQ(read(options, text, each_byte(text)), whole) << example.tools << "\n" << text;
      ASSERT_EQ(read(options, text, {below(text.size() + 1)}), whole) << text;
    }
  }
}

}  // namespace
}  // namespace quire
