// Thinking split from the answer; answers that a grammar forces; families by their templates.
#include "dialect/reasoning.h"

#include "dialect/read_whole.h"

namespace quire {
namespace {

TEST(Reasoning, IsSplitFromTheAnswer) {
  const auto check = [](std::string name, bool inside, std::string text, Whole whole) {
    EXPECT_EQ(read(options_of("hermes", name, inside), text), whole) << text;
    check_cuts(options_of("hermes", name, inside), text);
  };
  check("qwen3", false, "<think>\nHm, \n ok\n</think>\n\nYes.", {"Hm, \n ok", "Yes.", {}});
  check("qwen3", true, "Hm</think>Yes </think>", {"Hm", "Yes </think>", {}});
  check("qwen3", true, "<think>Hm</think>Yes", {"Hm", "Yes", {}});
  check("qwen3", false, "Yes, <think> is a tag", {"", "Yes, <think> is a tag", {}});
  check("qwen3", false, "<think>cut off ", {"cut off", "", {}});
  check("qwen3", false, "\n <thin", {"", "\n <thin", {}});
  check("mistral", false, "[THINK]Hm[/THINK]Yes", {"Hm", "Yes", {}});
  check("granite", false, "Here is my thought process: Hm.\n\nHere is my response: Yes",
        {"Hm.", "Yes", {}});
  check("cohere", false,
        "<|START_THINKING|>Hm<|END_THINKING|><|START_RESPONSE|>Yes<|END_RESPONSE|>",
        {"Hm", "Yes", {}});
  check("qwen3", false,
        "<think>x</think>\n\n<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>",
        {"x", "", {kPing}});
}

TEST(Reasoning, BeginsWhereThePromptLeftIt) {
  const auto* qwen = reasoning_format("qwen3");
  const auto* r1 = reasoning_format("deepseek_r1");
  using enum ThinkingState;
  EXPECT_EQ(thinking_state(*qwen, "user: x\nassistant: <think>\n"), kInside);
  EXPECT_EQ(thinking_state(*qwen, "assistant: "), kMayBegin);
  EXPECT_EQ(thinking_state(*qwen, "assistant: <think>\n\n</think>\n\n"), kEnded);
  EXPECT_EQ(thinking_state(*r1, "assistant: "), kInside);
  EXPECT_EQ(thinking_state(*r1, "assistant: <think>\n\n</think>\n\n"), kEnded);
  EXPECT_EQ(reasoning_format("openai_gptoss"), nullptr);
}

TEST(Dialects, ForcedAnswers) {
  auto options = options_of("hermes", "qwen3");
  options.forced = ReplyOptions::Forced::kArguments;
  options.forced_function = "get_weather";
  EXPECT_EQ(read(options, R"({"city": "Paris"})"), (Whole{"", "", {kParis}}));
  EXPECT_EQ(read(options, ""), (Whole{"", "", {{"get_weather", ""}}}));
  options.forced = ReplyOptions::Forced::kList;
  const std::string list =
      R"(<think>so</think>[{"name": "get_weather", "parameters": {"city": "Paris"}}, {"name": "ping", "parameters": {}}])";
  EXPECT_EQ(read(options, list), (Whole{"so", "", {kParis, kPing}}));
  check_cuts(options, list);
}

TEST(Dialects, TemplatesShowTheirFamily) {
  const auto tools_of = [](std::string_view source) { return dialect_of_template(source).tools; };
  EXPECT_EQ(tools_of("{% if tools %}<tool_call>\\n"), "hermes");
  EXPECT_EQ(tools_of("<tool_call>\\n<function=x>\\n<parameter=y>"), "qwen3_coder");
  EXPECT_EQ(tools_of("'<tool_call>' + name + '<arg_key>'"), "glm45");
  EXPECT_EQ(tools_of("[TOOL_CALLS] "), "mistral");
  EXPECT_EQ(tools_of("{{ messages }}"), "");
  EXPECT_EQ(dialect_of_template("a</think>").reasoning, "qwen3");
  EXPECT_EQ(dialect_of_template("<|channel|>").reasoning, "openai_gptoss");
  for (const auto name : tool_parser_names()) EXPECT_TRUE(is_tool_parser(name));
  for (const auto name : reasoning_parser_names()) EXPECT_TRUE(is_reasoning_parser(name));
  EXPECT_FALSE(is_tool_parser("") || is_tool_parser("nope") || is_reasoning_parser(""));
}

}  // namespace
}  // namespace quire
