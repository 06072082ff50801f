// Calls that a request forces, and thinking before what a grammar decides: what the engine is told,
// and how its answer is shown.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "server/fake_parts.h"
#include "server/raw_client.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr const char* kThinking = "{{ tools }}<tool_call>{{ '<think>' }}";
const std::string kTools =
    R"("tools": [{"type": "function", "function": {"name": "get_weather", "parameters":
       {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
       {"type": "function", "function": {"name": "ping"}}])";
const std::string kNamed =
    kTools + R"(, "tool_choice": {"type": "function", "function": {"name": "get_weather"}})";
const std::string kRequired = kTools + R"(, "tool_choice": "required")";

json::value ask_forced(FakeServer& server, const std::string& more, int status = 200) {
  RawClient client(server.server->port());
  client.post("/v1/chat/completions",
              R"({"messages": [{"role": "user", "content": "hi"}], )" + more + "}");
  const auto reply = client.read();
  EXPECT_EQ(reply.status, status) << more << "\n" << reply.body;
  return json::parse(reply.body);
}
const json::object& choice_of(const json::value& body) {
  return body.at("choices").at(0).as_object();
}
std::vector<TokenId> ids(std::string_view text) { return {text.begin(), text.end()}; }

const std::string kCall =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

TEST(ForcedCalls, Named) {
  FakeServer server({}, kCall, "{{ tools }}<tool_call>");
  const auto body = ask_forced(server, kNamed);
  const auto& message = choice_of(body).at("message").as_object();
  EXPECT_TRUE(message.at("content").is_null());
  const auto& call = message.at("tool_calls").at(0);
  EXPECT_EQ(call.at("function").at("name").as_string(), "get_weather");
  EXPECT_EQ(call.at("function").at("arguments").as_string(), R"({"city": "Oslo"})");
  EXPECT_EQ(choice_of(body).at("finish_reason").as_string(), "tool_calls");
  ASSERT_NE(server.generator.last_request()->grammar, nullptr);
  EXPECT_TRUE(server.generator.last_request()->grammar_start.empty());
}

TEST(ForcedCalls, Required) {
  FakeServer server({},
                    "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>\n" + kCall,
                    "{{ tools }}<tool_call>");
  const auto body = ask_forced(server, kRequired);
  const auto& calls = choice_of(body).at("message").at("tool_calls").as_array();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].at("function").at("arguments").as_string(), "{}");
  EXPECT_EQ(calls[1].at("function").at("name").as_string(), "get_weather");
  ASSERT_NE(server.generator.last_request()->grammar, nullptr);
}

// Where the family's form can't hold what a schema asks for, or there is no form.
TEST(ForcedCalls, AreJsonAloneWithoutAForm) {
  const std::string dated =
      R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
         "properties": {"on": {"type": "string", "format": "date"}}}}}], )";
  FakeServer tags({}, R"([{"name": "f", "parameters": {"on": "2026-01-02"}}])",
                  "{{ tools }}<tool_call><parameter=x>");
  const auto body = ask_forced(tags, dated + R"("tool_choice": "required")");
  EXPECT_EQ(choice_of(body).at("message").at("tool_calls").as_array().size(), 1U);
  EXPECT_EQ(tags.text.specs().back().kind, GrammarSpec::Kind::kJsonSchema);

  ServerOptions options;
  options.tool_call_parser = "none";
  FakeServer none(options, R"({"city": "Oslo"})", "{{ tools }}<tool_call>");
  const auto named = ask_forced(none, kNamed);
  EXPECT_EQ(choice_of(named)
                .at("message")
                .at("tool_calls")
                .at(0)
                .at("function")
                .at("arguments")
                .as_string(),
            R"({"city": "Oslo"})");
}

TEST(StrictCalls, HoldArgumentsToTheSchemaAndLeaveTextFree) {
  FakeServer server({}, "Sure. " + kCall, "{{ tools }}<tool_call>");
  const auto strict = [](std::string_view schema) {
    return R"("tools": [{"type": "function", "function": {"name": "get_weather", "strict": true,
              "parameters": )" +
           std::string(schema) + "}}]";
  };
  const std::string good =
      strict(R"({"type": "object", "properties": {"city": {"type": "string"}}})");
  const auto body = ask_forced(server, good);
  EXPECT_EQ(choice_of(body).at("message").at("content").as_string(), "Sure. ");
  EXPECT_EQ(choice_of(body).at("message").at("tool_calls").as_array().size(), 1U);
  ASSERT_NE(server.generator.last_request()->grammar, nullptr);
  EXPECT_EQ(server.text.specs().back().kind, GrammarSpec::Kind::kStructuralTag);
  ask_forced(server, good + R"(, "tool_choice": "none")");
  EXPECT_EQ(server.generator.last_request()->grammar, nullptr);

  const auto error =
      ask_forced(server, strict(R"({"type": "object", "not": {}})"), 400).at("error");
  EXPECT_EQ(error.at("param").as_string(), "tools[0].function.parameters");
  const auto beams =
      ask_forced(server, good + R"(, "use_beam_search": true, "n": 2)", 400).at("error");
  EXPECT_EQ(beams.at("param").as_string(), "tools");
  FakeServer tags({}, "x", "{{ tools }}<tool_call><parameter=x>");
  const auto form =
      ask_forced(tags, strict(R"({"type": "object", "properties": {"city": {"type": "string",
                                         "format": "date"}}})"),
                 400)
          .at("error");
  EXPECT_EQ(form.at("param").as_string(), "tools[0].function.parameters");
  EXPECT_NE(std::string(form.at("message").as_string()).find("\"format\""), std::string::npos);
}

// As deep as a request may be: found by fuzzing, it ended the server.
TEST(ForcedCalls, SchemasThatNestDeeply) {
  std::string schema = R"({"type": "string"})";
  for (int i = 0; i < 24; ++i)
    schema = R"({"type": "object", "properties": {"a": )" + schema + "}}";
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "f", "parameters": )" + schema + "}}]";
  FakeServer server({}, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
                    "{{ tools }}<tool_call>");
  ask_forced(server, tools + R"(, "tool_choice": "required")");
  FakeServer bare({}, "{}", "{{ tools }}<tool_call><parameter=x>");
  ask_forced(bare, tools + R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})");
  FakeServer harmony({}, "<|channel|>final<|message|>{}", "{{ tools }}<|channel|>");
  const std::string budget = R"("thinking_token_budget": 3, )";
  ask_forced(harmony, budget + R"("structured_outputs": {"json": )" + schema + "}");
  std::string text;
  for (const char c : schema) text += c == '"' ? "\\\"" : std::string(1, c);
  ask_forced(harmony, budget + R"("structured_outputs": {"json": ")" + text + "\"}");
  for (const char* bad : {"{", R"({\"minimum\": 0e99999999999})", R"({\"a\": 1, \"a\": 2})"}) {
    const auto error =
        ask_forced(harmony, budget + R"("structured_outputs": {"json": ")" + bad + "\"}", 400);
    EXPECT_EQ(error.at("error").at("param").as_string(), "structured_outputs.json") << bad;
  }
}

TEST(ForcedCalls, AutoAndNoneForceNothing) {
  FakeServer server({}, "x", "{{ tools }}<tool_call>");
  for (const char* choice : {"auto", "none"}) {
    ask_forced(server, kTools + R"(, "tool_choice": ")" + choice + "\"");
    EXPECT_EQ(server.generator.last_request()->grammar, nullptr);
  }
}

TEST(ForcedCalls, WhatCantBeEnforcedIsRefusedAtItsPlace) {
  FakeServer server({}, "x", "{{ tools }}<tool_call>");
  const std::string unique =
      R"("tools": [{"type": "function", "function": {"name": "a"}},
         {"type": "function", "function": {"name": "f", "parameters": {"type": "object",
          "properties": {"x": {"type": "array", "uniqueItems": true}}}}}], "tool_choice": "required")";
  const auto error = ask_forced(server, unique, 400).at("error");
  EXPECT_EQ(error.at("param").as_string(), "tools[1].function.parameters");
  EXPECT_NE(std::string(error.at("message").as_string()).find("uniqueItems"), std::string::npos);
  const auto both =
      ask_forced(server, kNamed + R"(, "response_format": {"type": "json_object"})", 400);
  EXPECT_EQ(both.at("error").at("param").as_string(), "tool_choice");
}

TEST(Thinking, ComesBeforeWhatTheGrammarDecides) {
  FakeServer server({}, "Hm.</think>\n\n" + kCall, kThinking, "<think>\n");
  const auto body = ask_forced(server, kNamed);
  const auto& message = choice_of(body).at("message").as_object();
  EXPECT_EQ(message.at("reasoning").as_string(), "Hm.");
  EXPECT_EQ(message.at("tool_calls").as_array().size(), 1U);
  EXPECT_EQ(server.generator.last_request()->grammar_start, ids("</think>"));
}

TEST(Thinking, IsNotAwaitedWhereThePromptHasEndedIt) {
  FakeServer server({}, kCall, kThinking, "<think>\n\n</think>\n\n");
  ask_forced(server, kNamed);
  EXPECT_TRUE(server.generator.last_request()->grammar_start.empty());
}

// The vocabulary has no tokens for the marks: they are known by their text, and the opening one's
// last character may come with more in its token.
TEST(Thinking, MarksOfSeveralTokens) {
  FakeServer server({}, kCall, kThinking, "");
  ask_forced(server, kNamed);
  EXPECT_EQ(server.generator.last_request()->thinking.begin, ids("<think"));
  EXPECT_NE(server.generator.last_request()->thinking.text, nullptr);
  EXPECT_NE(server.text.specs().back().text.find(R"("begin":">","end":["</think>"])"),
            std::string::npos)
      << server.text.specs().back().text;
  FakeServer begun({}, "Hm.</think>" + kCall, kThinking, "<think>\n");
  ask_forced(begun, kNamed);
  EXPECT_TRUE(begun.generator.last_request()->thinking.begin.empty());
  EXPECT_NE(begun.generator.last_request()->thinking.text, nullptr);
  EXPECT_NE(begun.text.specs().back().text.find(R"("begin":"")"), std::string::npos);
}

TEST(Thinking, ABudgetReachesTheEngine) {
  FakeServer server({}, "Hm.</think>Yes.", kThinking, "<think>\n");
  ask_forced(server, R"("thinking_token_budget": 7)");
  EXPECT_EQ(server.generator.last_request()->thinking.budget, 7);
  EXPECT_EQ(server.generator.last_request()->grammar_start, ids("</think>"));
  ask_forced(server, R"("thinking_token_budget": -1)");
  EXPECT_EQ(server.generator.last_request()->thinking.budget, -1);
  for (const char* bad : {"-2", "true", "1.5", "\"x\""}) {
    const auto error = ask_forced(server, std::string(R"("thinking_token_budget": )") + bad, 400);
    EXPECT_EQ(error.at("error").at("param").as_string(), "thinking_token_budget") << bad;
  }
  FakeServer harmony({}, "<|channel|>final<|message|>Yes.", "{{ tools }}<|channel|>");
  ask_forced(harmony, R"("thinking_token_budget": 7)");
  EXPECT_NE(harmony.generator.last_request()->grammar, nullptr);
  EXPECT_TRUE(harmony.generator.last_request()->grammar_start.empty());
  EXPECT_NE(harmony.text.specs().back().text.find("\"max_tokens\":7"), std::string::npos);
  ask_forced(harmony, R"("thinking_token_budget": 0, "response_format": {"type": "json_object"})");
  EXPECT_NE(harmony.text.specs().back().text.find("json_schema"), std::string::npos);

  FakeServer plain({}, "x", "{{ tools }}");
  const auto error = ask_forced(plain, R"("thinking_token_budget": 7)", 400);
  EXPECT_EQ(error.at("error").at("param").as_string(), "thinking_token_budget");
}

}  // namespace
}  // namespace quire
