// Calls and reasoning in chat answers, plain and streamed, with a stand-in for the engine that
// answers what a model would.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "server/chat_dialect.h"
#include "server/fake_parts.h"
#include "server/raw_client.h"
#include "server/tools_in_words.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr const char* kHermes = "{% if tools %}<tool_call>{% endif %}";
constexpr const char* kThinkingTemplate = "{{ tools }}<tool_call>{{ '<think>' }}";
constexpr const char* kTwoTools =
    R"("tools": [{"type": "function", "function": {"name": "get_weather", "parameters":
       {"type": "object", "properties": {"city": {"type": "string"}}}}},
       {"type": "function", "function": {"name": "ping"}}])";
constexpr const char* kTwoCalls =
    "Let me see. <tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": "
    "\"Oslo\"}}</tool_call>"
    "<tool_call>{\"name\": \"ping\"}</tool_call>";

json::value ask_tools(FakeServer& server, const std::string& more, int status = 200) {
  RawClient client(server.server->port());
  client.post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}])" +
                                          (more.empty() ? std::string() : ", " + more) + "}");
  const auto reply = client.read();
  EXPECT_EQ(reply.status, status) << more << "\n" << reply.body;
  return json::parse(reply.body);
}

const json::object& message_of(const json::value& body) {
  return body.at("choices").at(0).at("message").as_object();
}
std::string finish_of(const json::value& body) {
  return std::string(body.at("choices").at(0).at("finish_reason").as_string());
}

struct Streamed {
  std::string content, reasoning, finish;
  std::vector<std::string> ids, names, arguments;
};
// Joins a stream's deltas; a call's id, type and name must come once, with its first piece.
Streamed stream_tools(FakeServer& server, const std::string& more) {
  RawClient client(server.server->port());
  client.post("/v1/chat/completions",
              R"({"messages": [{"role": "user", "content": "hi"}], "stream": true, )" + more + "}");
  const auto reply = client.read();
  EXPECT_EQ(reply.status, 200) << reply.body;
  Streamed out;
  for (std::size_t at = 0; at < reply.body.size();) {
    const auto end = reply.body.find("\n\n", at);
    const auto data = reply.body.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") break;
    const auto event = json::parse(data);
    const auto& choice = event.at("choices").at(0);
    const auto& delta = choice.at("delta").as_object();
    if (const auto* text = delta.if_contains("content")) out.content += text->as_string();
    if (const auto* text = delta.if_contains("reasoning")) {
      EXPECT_EQ(*text, delta.at("reasoning_content"));
      out.reasoning += text->as_string();
    }
    if (const auto* calls = delta.if_contains("tool_calls")) {
      for (const auto& call : calls->as_array()) {
        const auto index = static_cast<std::size_t>(call.at("index").as_int64());
        const auto& function = call.at("function").as_object();
        EXPECT_EQ(function.contains("name"), index == out.names.size());
        EXPECT_EQ(call.as_object().contains("id"), index == out.names.size());
        if (index == out.names.size()) {
          EXPECT_EQ(call.at("type").as_string(), "function");
          out.ids.emplace_back(call.at("id").as_string());
          out.names.emplace_back(function.at("name").as_string());
          out.arguments.emplace_back();
        }
        out.arguments.at(index) += function.at("arguments").as_string();
      }
    }
    if (!choice.at("finish_reason").is_null())
      out.finish = std::string(choice.at("finish_reason").as_string());
  }
  return out;
}

TEST(ChatTools, CallsAreReadFromTheAnswer) {
  FakeServer server({}, kTwoCalls, kHermes);
  const auto body = ask_tools(server, kTwoTools);
  const auto& message = message_of(body);
  EXPECT_EQ(message.at("content").as_string(), "Let me see. ");
  const auto& calls = message.at("tool_calls").as_array();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].at("type").as_string(), "function");
  EXPECT_EQ(json::serialize(calls[0].at("function")),
            R"({"name":"get_weather","arguments":"{\"city\": \"Oslo\"}"})");
  EXPECT_EQ(calls[1].at("function").at("arguments").as_string(), "{}");
  EXPECT_NE(calls[0].at("id"), calls[1].at("id"));
  EXPECT_EQ(finish_of(body), "tool_calls");
}

TEST(ChatTools, StreamedCallsEqualPlainOnes) {
  FakeServer server({}, kTwoCalls, kHermes);
  const auto streamed = stream_tools(server, kTwoTools);
  EXPECT_EQ(streamed.content, "Let me see. ");
  EXPECT_EQ(streamed.names, (std::vector<std::string>{"get_weather", "ping"}));
  EXPECT_EQ(streamed.arguments, (std::vector<std::string>{R"({"city": "Oslo"})", "{}"}));
  EXPECT_EQ(std::set<std::string>(streamed.ids.begin(), streamed.ids.end()).size(), 2U);
  EXPECT_EQ(streamed.finish, "tool_calls");
}

TEST(ChatTools, NoneLeavesTheTextAlone) {
  FakeServer server({}, kTwoCalls, kHermes);
  const auto body = ask_tools(server, std::string(kTwoTools) + R"(, "tool_choice": "none")");
  EXPECT_EQ(message_of(body).at("content").as_string(), kTwoCalls);
  EXPECT_FALSE(message_of(body).contains("tool_calls"));
  EXPECT_EQ(finish_of(body), "stop");
  EXPECT_EQ(message_of(ask_tools(server, "")).at("content").as_string(), kTwoCalls);
}

TEST(ChatTools, WithoutParallelCallsOneComesBack) {
  FakeServer server({}, kTwoCalls, kHermes);
  const auto more = std::string(kTwoTools) + R"(, "parallel_tool_calls": false)";
  EXPECT_EQ(message_of(ask_tools(server, more)).at("tool_calls").as_array().size(), 1U);
  EXPECT_EQ(stream_tools(server, more).names.size(), 1U);
}

TEST(ChatTools, ACallThatTheLimitCutsComesBackAsItIs) {
  FakeServer server({}, kTwoCalls, kHermes);
  const auto body = ask_tools(server, std::string(kTwoTools) + R"(, "max_tokens": 70)");
  EXPECT_EQ(message_of(body).at("tool_calls").at(0).at("function").at("arguments").as_string(),
            std::string_view(R"({"city": "Oslo"})").substr(0, 10));
  EXPECT_EQ(finish_of(body), "length");
}

// Nobody is to make a call that the request's own stop string has cut.
TEST(ChatTools, AStopStringInACallEndsTheAnswerWithStop) {
  FakeServer server({}, kTwoCalls, kHermes);
  const std::string cut = std::string(kTwoTools) + R"(, "stop": ["sl"])";
  const auto body = ask_tools(server, cut);
  EXPECT_EQ(finish_of(body), "stop");
  EXPECT_EQ(body.at("choices").at(0).at("stop_reason"), "sl");
  EXPECT_EQ(message_of(body).at("tool_calls").at(0).at("function").at("arguments"),
            R"({"city": "O)");
  const auto streamed = stream_tools(server, cut);
  EXPECT_EQ(streamed.finish, "stop");
  EXPECT_EQ(streamed.arguments, std::vector<std::string>{R"({"city": "O)"});
  // Between calls: the first one is whole.
  const auto between = ask_tools(server, std::string(kTwoTools) + R"(, "stop": ["</tool_call>"])");
  EXPECT_EQ(finish_of(between), "tool_calls");
  EXPECT_EQ(between.at("choices").at(0).at("stop_reason"), "</tool_call>");
  // Before its arguments: they are not {}.
  const auto early = ask_tools(server, std::string(kTwoTools) + R"(, "stop": ["arguments"])");
  EXPECT_EQ(finish_of(early), "stop");
}

TEST(ChatTools, RolesAreThoseOfOpenAiOrTheTemplates) {
  FakeServer server({}, "x",
                    "{% if message['role'] == 'ipython' %}{{ \"critic\" }}{% endif %}"
                    "{% if 'tool_calls' in message and \"name\" not in message and "
                    "message.get('content') and message.get( 'x', 'judge') %}{% endif %}"
                    "{% if message.role in ['environment', 'log'] %}{% endif %}");
  const auto ask_as = [&](const std::string& role, int status) {
    RawClient client(server.server->port());
    client.post("/v1/chat/completions",
                R"({"messages": [{"role": "user", "content": "a"}, {"role": ")" + role +
                    R"(", "content": "b"}]})");
    const auto reply = client.read();
    EXPECT_EQ(reply.status, status) << role << reply.body;
    return json::parse(reply.body);
  };
  for (const char* role : {"system", "developer", "user", "assistant", "tool", "function",
                           "ipython", "critic", "judge", "environment", "log"}) {
    ask_as(role, 200);
  }
  for (const char* role :
       {"usr", "User", "message", "role", "if", "tool_calls", "name", "content", "x"}) {
    const auto error = ask_as(role, 400).at("error");
    EXPECT_EQ(error.at("param"), "messages[1].role");
    EXPECT_NE(error.at("message").as_string().find("developer"), json::string::npos);
  }
}

TEST(ChatTools, AnAnswerOfCallsAloneHasANullContent) {
  FakeServer server({}, "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>", kHermes);
  const auto body = ask_tools(server, kTwoTools);
  EXPECT_TRUE(message_of(body).at("content").is_null());
  EXPECT_EQ(stream_tools(server, kTwoTools).content, "");
}

TEST(ChatTools, BadToolsAreRefusedByName) {
  FakeServer server({}, "x", kHermes);
  const std::string long_name(65, 'a');
  const std::pair<std::string, std::string> cases[] = {
      {R"("tools": [])", "tools"},
      {R"("tools": "x")", "tools"},
      {R"("tools": [3])", "tools[0]"},
      {R"("tools": [{"type": "function"}])", "tools[0].function"},
      {R"("tools": [{"type": "retrieval", "function": {"name": "f"}}])", "tools[0].type"},
      {R"("tools": [{"type": "function", "function": {"description": "d"}}])",
       "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "a b"}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": ")" + long_name + R"("}}])",
       "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "parameters": []}}])",
       "tools[0].function.parameters"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "strict": "x"}}])",
       "tools[0].function.strict"},
      {R"("tools": [{"type": "function", "function": {"name": "f"}},
                    {"type": "function", "function": {"name": "f"}}])",
       "tools[1].function.name"},
      {std::string(kTwoTools) +
           R"(, "tool_choice": {"type": "function", "function": {"name": "no"}})",
       "tool_choice"},
      {std::string(kTwoTools) + R"(, "tool_choice": {"type": "function"})", "tool_choice.function"},
      {R"("tool_choice": "required")", "tool_choice"},
      {R"("tool_choice": {"type": "function", "function": {"name": "f"}})", "tool_choice"},
  };
  for (const auto& [more, param] : cases) {
    const auto error = ask_tools(server, more, 400).at("error");
    if (!param.empty()) {
      EXPECT_EQ(error.at("param").as_string(), param) << more;
    }
  }
}

TEST(ChatReasoning, IsApartFromTheContent) {
  FakeServer server({}, "<think>\nHm, so.\n</think>\n\nYes.", kThinkingTemplate);
  const auto body = ask_tools(server, "");
  EXPECT_EQ(message_of(body).at("reasoning").as_string(), "Hm, so.");
  EXPECT_EQ(message_of(body).at("reasoning_content").as_string(), "Hm, so.");
  EXPECT_EQ(message_of(body).at("content").as_string(), "Yes.");
  const auto streamed = stream_tools(server, R"("max_tokens": 100)");
  EXPECT_EQ(streamed.reasoning, "Hm, so.");
  EXPECT_EQ(streamed.content, "Yes.");
  const auto hidden = ask_tools(server, R"("include_reasoning": false)");
  EXPECT_FALSE(message_of(hidden).contains("reasoning"));
  EXPECT_EQ(message_of(hidden).at("content").as_string(), "Yes.");
}

TEST(ChatReasoning, ThePromptMayHaveOpenedIt) {
  FakeServer server({}, "Hm.</think>Yes.", kThinkingTemplate, "<think>\n");
  EXPECT_EQ(message_of(ask_tools(server, "")).at("reasoning").as_string(), "Hm.");
  EXPECT_EQ(message_of(ask_tools(server, "")).at("content").as_string(), "Yes.");
  const auto cut = ask_tools(server, R"("max_tokens": 2)");
  EXPECT_TRUE(message_of(cut).at("content").is_null());
  EXPECT_EQ(message_of(cut).at("reasoning").as_string(), "Hm");
}

TEST(ChatReasoning, UsageCountsItsTokens) {
  const auto reasoning = [](const json::value& body) {
    return body.at("usage").at("completion_tokens_details").at("reasoning_tokens").as_int64();
  };
  FakeServer server({}, "<think>Hm.</think>Yes.", kThinkingTemplate);
  EXPECT_EQ(reasoning(ask_tools(server, "")), 3);
  EXPECT_EQ(reasoning(ask_tools(server, R"("include_reasoning": false)")), 3);
  EXPECT_EQ(reasoning(ask_tools(server, R"("max_tokens": 9)")), 2);
  EXPECT_EQ(reasoning(ask_tools(server, R"("n": 2)")), 3);  // the second begins "think>"
  FakeServer opened({}, "Hm.</think>Yes.", kThinkingTemplate, "<think>\n");
  EXPECT_EQ(reasoning(ask_tools(opened, "")), 3);
  FakeServer none({}, "Yes.", kThinkingTemplate);
  EXPECT_EQ(reasoning(ask_tools(none, "")), 0);

  RawClient client(server.server->port());
  client.post("/v1/chat/completions",
              R"({"messages": [{"role": "user", "content": "hi"}], "stream": true, "stream_options":
                 {"include_usage": true, "continuous_usage_stats": true}})");
  const std::string body = client.read().body;
  std::vector<std::int64_t> counts;
  for (std::size_t at = 0; (at = body.find("\"reasoning_tokens\":", at)) != std::string::npos;)
    counts.push_back(body.at(at += 19) - '0');
  ASSERT_GE(counts.size(), 2U);
  EXPECT_EQ(counts.front(), 0);
  EXPECT_EQ(counts.back(), 3);

  FakeServer plain({}, "Yes.", "{{ tools }}");  // whose thinking can't be told
  EXPECT_FALSE(ask_tools(plain, "").at("usage").as_object().contains("completion_tokens_details"));
}

TEST(ChatReasoning, ParsersAreNamedOrOff) {
  ServerOptions options;
  options.reasoning_parser = "none";
  FakeServer plain(options, "<think>Hm.</think>Yes.", kThinkingTemplate);
  EXPECT_EQ(message_of(ask_tools(plain, "")).at("content").as_string(), "<think>Hm.</think>Yes.");
  options.reasoning_parser = "deepseek_r1";
  FakeServer r1(options, "Hm.</think>Yes.", "{{ tools }}");
  EXPECT_EQ(message_of(ask_tools(r1, "")).at("reasoning").as_string(), "Hm.");
  options.reasoning_parser = "nope";
  const auto bad = check_parser_names(options);
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("qwen3"), std::string::npos);
}

TEST(ToolsInWords, StandInMessagesWhereTheTemplateKnowsNone) {
  const auto out = tools_in_messages(
      R"([{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":
          [{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","content":"ok"}])",
      R"([{"type":"function","function":{"name":"f"}}])");
  ASSERT_TRUE(out);
  const auto messages = json::parse(*out).as_array();
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_NE(messages[0].at("content").as_string().find(R"({"name":"f"})"), std::string::npos);
  EXPECT_EQ(messages[2].at("content").as_string(),
            R"(<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>)");
  EXPECT_EQ(messages[3].at("role").as_string(), "user");
  EXPECT_EQ(messages[3].at("content").as_string(), "<tool_response>ok</tool_response>");
}

TEST(ToolsInWords, CallsAreReadEvenSo) {
  FakeServer server({}, "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>",
                    "{{ messages }}");
  EXPECT_EQ(message_of(ask_tools(server, kTwoTools)).at("tool_calls").as_array().size(), 1U);
}

}  // namespace
}  // namespace quire
