// The same answers as over HTTP.
#include "server/offline_call.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "server/fake_parts.h"

namespace quire {
namespace {

namespace json = boost::json;

struct OfflineCall : testing::Test {
  OfflineCall() {
    options.served_model_names = {"tiny"};
    options.max_model_len = 64;
    options.eos_ids = {FakeText::kEnd};
  }
  json::value ask(std::string_view url, std::string_view body, int status = 200) {
    const OfflineReply reply = caller.call(url, body, "line-1", 7);
    EXPECT_EQ(reply.status, status) << reply.body;
    return json::parse(reply.body);
  }
  ServerOptions options;
  FakeText text;
  FakeGenerator generator;
  OfflineCaller caller{&options, &text, &generator};
};

TEST_F(OfflineCall, AnswersCompletionsAndChats) {
  const auto completion =
      ask("/v1/completions", R"({"prompt": ["a", "b"], "max_tokens": 5, "logprobs": 1})");
  EXPECT_EQ(completion.at("id"), "cmpl-line-1");
  EXPECT_EQ(completion.at("choices").as_array().size(), 2u);
  EXPECT_EQ(completion.at("choices").at(1).at("text"), "hello");
  const auto chat =
      ask("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}]})");
  EXPECT_EQ(chat.at("choices").at(0).at("message").at("content"), "hello world");
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "ab", "max_tokens": 0, "echo": true})")
                .at("choices")
                .at(0)
                .at("text"),
            "ab");
}

TEST_F(OfflineCall, SeedComesFromTheLine) {
  ask("/v1/completions", R"({"prompt": "a"})");
  const auto first = generator.last_request()->sampling->seed;
  ask("/v1/completions", R"({"prompt": "a"})");
  EXPECT_EQ(generator.last_request()->sampling->seed, first);
  caller.call("/v1/completions", R"({"prompt": "a"})", "line-2", 8);
  EXPECT_NE(generator.last_request()->sampling->seed, first);
}

TEST_F(OfflineCall, ErrorsAreTheServers) {
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "a", "top_p": 7})", 400).at("error").at("param"),
            "top_p");
  ask("/v1/completions", "{", 400);
  ask("/v1/completions", R"({"prompt": "a", "stream": true})", 400);
  ask("/v1/files", "{}", 404);
  ask("/v1/completions", R"({"prompt": "a", "model": "other"})", 404);
  generator.fail_after(1);
  ask("/v1/completions", R"({"prompt": "a"})", 500);
}

}  // namespace
}  // namespace quire
