// The protocol over a real socket, with a stand-in for the engine.
#include "server/api_server.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>

#include "server/fake_parts.h"
#include "server/raw_client.h"

namespace quire {
namespace {

namespace json = boost::json;

json::value ask(FakeServer& server, std::string_view path, std::string_view body,
                int status = 200) {
  RawClient client(server.server->port());
  client.post(path, body);
  const auto reply = client.read();
  EXPECT_EQ(reply.status, status) << body << "\n" << reply.body;
  return json::parse(reply.body);
}

// The data of a stream's events; checks the end.
std::vector<json::value> ask_stream(FakeServer& server, std::string_view path,
                                    std::string_view body) {
  RawClient client(server.server->port());
  client.post(path, body);
  const auto reply = client.read();
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("content-type").substr(0, 17), "text/event-stream");
  std::vector<json::value> out;
  std::size_t at = 0;
  while (at < reply.body.size()) {
    const auto end = reply.body.find("\n\n", at);
    const auto data = reply.body.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") {
      EXPECT_EQ(at, reply.body.size());
    } else {
      out.push_back(json::parse(data));
    }
  }
  return out;
}

const char* kChat = R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5)";

TEST(ApiServer, CompletionShape) {
  FakeServer server;
  const auto body =
      ask(server, "/v1/completions", R"({"model": "tiny", "prompt": "ab", "max_tokens": 5})");
  EXPECT_EQ(body.at("object").as_string(), "text_completion");
  EXPECT_EQ(body.at("model").as_string(), "tiny");
  const auto& choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("text").as_string(), "hello");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "length");
  EXPECT_TRUE(choice.at("logprobs").is_null() && choice.at("stop_reason").is_null());
  EXPECT_EQ(json::serialize(body.at("usage")),
            R"({"prompt_tokens":2,"completion_tokens":5,"total_tokens":7})");
  EXPECT_EQ(ask(server, "/v1/completions", R"({"prompt": "ab"})")
                .at("choices")
                .at(0)
                .at("finish_reason")
                .as_string(),
            "stop");
}

TEST(ApiServer, SamplersReachTheEngine) {
  ServerOptions options;
  options.logprobs_mode = LogprobsMode::kProcessedLogits;
  options.max_logprobs = 300;
  FakeServer server(options);
  ask(server, "/v1/completions", R"({"prompt": "ab", "max_tokens": 1, "typical_p": 0.8,
      "xtc_probability": 0.5, "xtc_threshold": 0.2, "dry_multiplier": 0.7, "dry_base": 1.5,
      "dry_allowed_length": 3, "dry_penalty_last_n": 64, "logprobs": -1, "logprob_token_ids": [7, 9],
      "repetition_detection": {"max_pattern_size": 5, "min_count": 4}})");
  const auto request = server.generator.last_request();
  const SamplingParams& p = *request->sampling;
  EXPECT_EQ(p.typical_p, 0.8);
  EXPECT_EQ(p.xtc_probability, 0.5);
  EXPECT_EQ(p.xtc_threshold, 0.2);
  EXPECT_EQ(p.dry_multiplier, 0.7);
  EXPECT_EQ(p.dry_base, 1.5);
  EXPECT_EQ(p.dry_allowed_length, 3);
  EXPECT_EQ(p.dry_penalty_last_n, 64);
  ASSERT_NE(p.dry_breakers, nullptr);
  EXPECT_EQ(p.dry_breakers->size(), 4u);
  EXPECT_EQ(p.logprobs, 257);
  EXPECT_EQ(p.logprob_token_ids, (std::vector<TokenId>{7, 9}));
  EXPECT_EQ(p.logprobs_mode, LogprobsMode::kProcessedLogits);
  EXPECT_EQ(request->stop.repetition.max_pattern_size, 5);
  EXPECT_EQ(request->stop.repetition.min_pattern_size, 1);
  EXPECT_EQ(request->stop.repetition.min_count, 4);
  ask(server, "/v1/completions", R"({"prompt": "ab", "logprobs": 1, "logprob_token_ids": [257]})",
      400);
}

TEST(ApiServer, RenderShowsWhatWouldRun) {
  FakeServer server;
  const auto list = ask(server, "/v1/completions/render",
                        R"({"prompt": ["ab", "c"], "temperature": 0.5, "max_tokens": 3})");
  ASSERT_EQ(list.as_array().size(), 2u);
  EXPECT_EQ(json::serialize(list.at(0).at("token_ids")), "[97,98]");
  EXPECT_EQ(list.at(1).at("prompt_text"), "c");
  EXPECT_EQ(list.at(0).at("sampling_params").at("temperature"), 0.5);
  EXPECT_EQ(list.at(0).at("sampling_params").at("max_tokens"), 3);
  const auto chat = ask(server, "/v1/chat/completions/render", std::string(kChat) + "}");
  EXPECT_NE(std::string(chat.at("prompt_text").as_string()).find("A:"), std::string::npos);
  EXPECT_EQ(server.generator.last_request(), nullptr);
  EXPECT_EQ(
      ask(server, "/v1/completions/render", R"({"prompt": "ab", "echo": true, "max_tokens": 0})")
          .as_array()
          .size(),
      1u);
  ask(server, "/v1/completions/render", R"({"prompt": "ab", "temperature": 5})", 400);
  const auto shown =
      ask(server, "/v1/chat/completions", std::string(kChat) + R"(, "return_prompt_text": true})");
  EXPECT_EQ(shown.at("prompt_text"), chat.at("prompt_text"));
}

// One text thread: others are read and answered while a grammar is compiled.
TEST(ApiServer, CompilingAGrammarHoldsUpNobodyElse) {
  FakeServer server;
  server.text.hold_compiling(true);
  RawClient slow(server.server->port());
  slow.post("/v1/completions", R"({"prompt": "a", "structured_outputs": {"regex": "a+"}})");
  while (server.text.specs().empty()) std::this_thread::yield();
  const auto other = ask(server, "/v1/completions", R"({"prompt": "b", "max_tokens": 1})");
  EXPECT_EQ(other.at("choices").as_array().size(), 1u);
  server.text.hold_compiling(false);
  EXPECT_EQ(slow.read().status, 200);
  EXPECT_EQ(server.generator.submitter_niceness(), getpriority(PRIO_PROCESS, 0))
      << "the engine's locks are not taken where compiling stands back";
  // It is ready now: no second compilation is waited for, errors come as ever.
  ask(server, "/v1/completions", R"({"prompt": "a", "structured_outputs": {"regex": "a+"}})");
  EXPECT_EQ(ask(server, "/v1/completions",
                R"({"prompt": "a", "structured_outputs": {"regex": "("}})", 400)
                .at("error")
                .at("param"),
            "structured_outputs.regex");
}

TEST(ApiServer, RenderTellsWhereTokensStand) {
  FakeServer server;
  const auto list = ask(server, "/v1/completions/render",
                        R"({"prompt": ["abc", "d"], "return_token_offsets": true, "n": 2,
                            "truncate_prompt_tokens": 2})");
  ASSERT_EQ(list.as_array().size(), 2u);
  EXPECT_EQ(json::serialize(list.at(0).at("token_ids")), "[98,99]");
  EXPECT_EQ(json::serialize(list.at(0).at("token_offsets")), "[[1,2],[2,3]]");
  EXPECT_EQ(list.at(0).at("prompt_text"), "abc") << "what they speak of";
  const auto ids =
      ask(server, "/v1/completions/render", R"({"prompt": [97], "return_token_offsets": true})");
  EXPECT_TRUE(ids.at(0).at("token_offsets").is_null());
  const auto chat = ask(server, "/v1/chat/completions/render",
                        std::string(kChat) + R"(, "return_token_offsets": true})");
  EXPECT_EQ(chat.at("token_offsets").as_array().size(), chat.at("token_ids").as_array().size());
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const auto error = ask(server, path,
                           path == std::string_view("/v1/completions")
                               ? R"({"prompt": "a", "return_token_offsets": true})"
                               : std::string(kChat) + R"(, "return_token_offsets": true})",
                           400);
    EXPECT_EQ(error.at("error").at("param"), "return_token_offsets");
  }
}

TEST(ApiServer, Embeddings) {
  ServerOptions options;
  options.embedding.hidden_size = 3;
  options.embedding.pooling = Pooling::kMean;
  FakeServer server(options);
  const auto body = ask(server, "/v1/embeddings", R"({"input": ["ab", "c"], "normalize": false})");
  EXPECT_EQ(json::serialize(body.at("data").at(1).at("embedding")), "[3E0,4E0,1.2E1]");
  EXPECT_EQ(body.at("data").at(1).at("index"), 1);
  EXPECT_EQ(body.at("usage").at("prompt_tokens"), 3);
  EXPECT_EQ(server.generator.last_request()->sampling->pooling, Pooling::kMean);
  EXPECT_EQ(server.generator.last_request()->stop.max_tokens, 0);
  // 0.6 and 0.8 as 32-bit floats.
  EXPECT_EQ(ask(server, "/v1/embeddings",
                R"({"input": [[1]], "dimensions": 2, "encoding_format": "base64"})")
                .at("data")
                .at(0)
                .at("embedding"),
            "mpkZP83MTD8=");
  ask(server, "/v1/embeddings", R"({"input": "x", "dimensions": 4})", 400);
  // The whole context is the input's: there is no answer.
  std::string long_ids;
  for (int i = 0; i < 256; ++i) long_ids += "1, ";
  ask(server, "/v1/embeddings", fmt::format(R"({{"input": "{}"}})", std::string(256, 'x')));
  const auto error =
      ask(server, "/v1/embeddings", fmt::format(R"({{"input": [{}1]}})", long_ids), 400)
          .at("error");
  EXPECT_EQ(std::string(error.at("message").as_string()),
            "this model's maximum context length is 256 tokens, but `input` has 257: shorten it or "
            "set truncate_prompt_tokens");
  EXPECT_EQ(
      ask(server, "/v1/embeddings", fmt::format(R"({{"input": "{}"}})", std::string(257, 'x')), 400)
          .at("error")
          .at("message")
          .as_string()
          .find("prompt of"),
      json::string::npos);
  ServerOptions refused;
  refused.embedding.unsupported = "a layer is missing";
  FakeServer other(refused);
  ask(other, "/v1/embeddings", R"({"input": "x"})", 400);
}

TEST(ApiServer, TokenizerInfoIsThereWhenAskedFor) {
  FakeServer closed;
  RawClient none(closed.server->port());
  none.get("/tokenizer_info");
  EXPECT_EQ(none.read().status, 404);
  ServerOptions options;
  options.enable_tokenizer_info = true;
  FakeServer server(options);
  RawClient client(server.server->port());
  client.get("/tokenizer_info");
  const auto info = json::parse(client.read().body);
  EXPECT_EQ(info.at("vocab_size"), 257);
  EXPECT_EQ(json::serialize(info.at("eos_tokens")), R"(["<end>"])");
}

TEST(ApiServer, StreamIntervalJoinsTokens) {
  for (const int asked : {1, 3, 4}) {
    ServerOptions options;
    options.stream_interval = 3;  // the server's is the least
    FakeServer server(options, "abcdefgh");
    const auto events = ask_stream(
        server, "/v1/completions",
        fmt::format(R"({{"prompt": "x", "max_tokens": 8, "stream": true, "stream_interval": {}}})",
                    asked));
    std::string text;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const auto piece = std::string(events[i].at("choices").at(0).at("text").as_string());
      text += piece;
      // Deltas that wait for the reader are joined anyway: only the least is certain.
      if (i > 0 && i + 1 < events.size()) {
        EXPECT_GE(piece.size(), asked == 4 ? 4u : 3u);
      }
    }
    EXPECT_EQ(text, "abcdefgh");
  }
}

TEST(ApiServer, MaxLogprobsBoundsTheWholeVocabulary) {
  FakeServer server;
  const auto error = ask(server, "/v1/completions", R"({"prompt": "ab", "logprobs": -1})", 400);
  EXPECT_EQ(error.at("error").at("param"), "logprobs");
}

TEST(ApiServer, SeveralPromptsKeepTheirOrder) {
  FakeServer server;
  const auto body =
      ask(server, "/v1/completions", R"({"prompt": ["a", "bcd"], "max_tokens": 2, "echo": true})");
  EXPECT_EQ(body.at("choices").at(0).at("text").as_string(), "ahe");
  EXPECT_EQ(body.at("choices").at(1).at("text").as_string(), "bcdhe");
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 4);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 4);
}

TEST(ApiServer, ChoicesAreGroupedByPromptAndThePromptCountsOnce) {
  FakeServer server;
  const auto body = ask(server, "/v1/completions",
                        R"({"prompt": ["a", "bcd"], "n": 2, "max_tokens": 2, "echo": true})");
  const std::vector<std::string> want{"ahe", "ael", "bcdhe", "bcdel"};
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(body.at("choices").at(i).at("index").as_int64(), static_cast<std::int64_t>(i));
    EXPECT_EQ(body.at("choices").at(i).at("text").as_string(), want[i]);
  }
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 4);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 8);
  const auto chat = ask(server, "/v1/chat/completions", std::string(kChat) + R"(, "n": 3})");
  ASSERT_EQ(chat.at("choices").as_array().size(), 3U);
  EXPECT_EQ(chat.at("choices").at(2).at("message").at("content").as_string(), "llo w");
  ask(server, "/v1/completions", R"({"prompt": ["a", "b"], "n": 16384})", 400);
}

TEST(ApiServer, BestOfGivesTheBestByMeanLogprob) {
  FakeServer server;
  const auto body = ask(server, "/v1/completions",
                        R"({"prompt": ["a", "b"], "n": 2, "best_of": 4, "max_tokens": 3})");
  ASSERT_EQ(body.at("choices").as_array().size(), 4U);
  for (const std::size_t first : {0U, 2U}) {
    EXPECT_EQ(body.at("choices").at(first).at("text").as_string(), "lo ");
    EXPECT_EQ(body.at("choices").at(first + 1).at("text").as_string(), "llo");
    EXPECT_TRUE(body.at("choices").at(first).at("logprobs").is_null());
  }
  EXPECT_EQ(body.at("choices").at(3).at("index").as_int64(), 3);
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 2);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 24);
}

TEST(ApiServer, StreamsOfSeveralChoicesEndEachOfThem) {
  FakeServer server;
  const auto events = ask_stream(server, "/v1/chat/completions",
                                 std::string(kChat) + R"(, "n": 2, "stream": true})");
  std::map<std::int64_t, std::string> texts;
  std::map<std::int64_t, int> starts, ends;
  for (const auto& event : events) {
    const auto& choice = event.at("choices").at(0);
    const std::int64_t index = choice.at("index").as_int64();
    const auto& delta = choice.at("delta").as_object();
    starts[index] += delta.contains("role") ? 1 : 0;
    if (delta.contains("content")) texts[index] += json::value_to<std::string>(delta.at("content"));
    if (!choice.at("finish_reason").is_null()) ++ends[index];
  }
  EXPECT_EQ(texts, (std::map<std::int64_t, std::string>{{0, "hello"}, {1, "ello "}}));
  EXPECT_EQ(starts, (std::map<std::int64_t, int>{{0, 1}, {1, 1}}));
  EXPECT_EQ(ends, starts);
}

TEST(ApiServer, EchoWithLogprobsCoversPromptAndAnswer) {
  FakeServer server;
  const auto body = ask(server, "/v1/completions",
                        R"({"prompt": "abc", "max_tokens": 2, "echo": true, "logprobs": 2})");
  const auto& lists = body.at("choices").at(0).at("logprobs");
  EXPECT_EQ(json::serialize(lists.at("tokens")), R"(["a","b","c","h","e"])");
  EXPECT_EQ(json::serialize(lists.at("text_offset")), "[0,1,2,3,4]");
  EXPECT_TRUE(lists.at("token_logprobs").at(0).is_null());
  EXPECT_EQ(lists.at("top_logprobs").at(1).as_object().size(), 2U);
}

TEST(ApiServer, EchoAloneRunsNothing) {
  FakeServer server;
  const auto body =
      ask(server, "/v1/completions", R"({"prompt": "abc", "max_tokens": 0, "echo": true})");
  EXPECT_EQ(body.at("choices").at(0).at("text").as_string(), "abc");
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 0);
  EXPECT_EQ(server.generator.last_request(), nullptr);
  const auto scored = ask(server, "/v1/completions",
                          R"({"prompt": "abc", "max_tokens": 0, "echo": true, "logprobs": 0})");
  EXPECT_EQ(scored.at("choices").at(0).at("text").as_string(), "abc");
  EXPECT_EQ(scored.at("choices").at(0).at("logprobs").at("tokens").as_array().size(), 3U);
  EXPECT_EQ(scored.at("usage").at("total_tokens").as_int64(), 3);
}

TEST(ApiServer, StreamEqualsPlain) {
  FakeServer server;
  const std::string base = R"({"prompt": "ab", "max_tokens": 7, "logprobs": 1, "echo": true)";
  const auto plain = ask(server, "/v1/completions", base + "}");
  const auto events =
      ask_stream(server, "/v1/completions",
                 base + R"(, "stream": true, "stream_options": {"include_usage": true}})");
  std::string text;
  json::array tokens, offsets;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i].at("id"), events[0].at("id"));
    EXPECT_TRUE(events[i].at("usage").is_null());
    const auto& choice = events[i].at("choices").at(0);
    text += json::value_to<std::string>(choice.at("text"));
    EXPECT_EQ(choice.at("finish_reason").is_null(), i + 2 < events.size());
    for (const auto& token : choice.at("logprobs").at("tokens").as_array()) tokens.push_back(token);
    for (const auto& offset : choice.at("logprobs").at("text_offset").as_array())
      offsets.push_back(offset);
  }
  EXPECT_EQ(text, plain.at("choices").at(0).at("text").as_string());
  EXPECT_EQ(tokens, plain.at("choices").at(0).at("logprobs").at("tokens").as_array());
  EXPECT_EQ(offsets, plain.at("choices").at(0).at("logprobs").at("text_offset").as_array());
  EXPECT_TRUE(events.back().at("choices").as_array().empty());
  EXPECT_EQ(events.back().at("usage"), plain.at("usage"));
}

TEST(ApiServer, StreamsOfSeveralPromptsEndEachChoice) {
  FakeServer server;
  const auto events = ask_stream(server, "/v1/completions",
                                 R"({"prompt": ["a", "b", "c"], "max_tokens": 4, "stream": true})");
  std::map<std::int64_t, std::string> texts;
  std::map<std::int64_t, int> ends;
  for (const auto& event : events) {
    EXPECT_FALSE(event.as_object().contains("usage"));
    const auto& choice = event.at("choices").at(0);
    texts[choice.at("index").as_int64()] += json::value_to<std::string>(choice.at("text"));
    if (!choice.at("finish_reason").is_null()) ++ends[choice.at("index").as_int64()];
  }
  EXPECT_EQ(texts, (std::map<std::int64_t, std::string>{{0, "hell"}, {1, "hell"}, {2, "hell"}}));
  EXPECT_EQ(ends, (std::map<std::int64_t, int>{{0, 1}, {1, 1}, {2, 1}}));
}

TEST(ApiServer, ChatShapeAndStream) {
  FakeServer server;
  const auto plain = ask(server, "/v1/chat/completions",
                         std::string(kChat) + R"(, "logprobs": true, "top_logprobs": 2})");
  EXPECT_EQ(plain.at("object").as_string(), "chat.completion");
  const auto& choice = plain.at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("role").as_string(), "assistant");
  EXPECT_EQ(choice.at("message").at("content").as_string(), "hello");
  EXPECT_EQ(choice.at("logprobs").at("content").as_array().size(), 5U);
  EXPECT_EQ(choice.at("logprobs").at("content").at(0).at("top_logprobs").as_array().size(), 2U);

  const auto events = ask_stream(
      server, "/v1/chat/completions",
      std::string(kChat) +
          R"(, "stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true}})");
  EXPECT_EQ(events[0].at("choices").at(0).at("delta").at("role").as_string(), "assistant");
  EXPECT_EQ(events[0].at("choices").at(0).at("delta").at("content").as_string(), "");
  std::string text;
  std::int64_t seen = 0;
  for (const auto& event : events) {
    EXPECT_EQ(event.at("object").as_string(), "chat.completion.chunk");
    EXPECT_GE(event.at("usage").at("completion_tokens").as_int64(), seen);
    seen = event.at("usage").at("completion_tokens").as_int64();
    if (event.at("choices").as_array().empty()) continue;
    const auto& delta = event.at("choices").at(0).at("delta").as_object();
    if (delta.contains("content")) text += json::value_to<std::string>(delta.at("content"));
  }
  EXPECT_EQ(text, "hello");
  EXPECT_EQ(seen, 5);
}

TEST(ApiServer, ParametersReachTheEngine) {
  FakeServer server;
  ask(server, "/v1/completions",
      R"({"prompt": "ab", "max_tokens": 3, "temperature": 0.5, "top_k": -1, "seed": 7, "stop": "zz", "stop_token_ids": [9],
          "min_tokens": 2, "bad_words": ["x"], "allowed_token_ids": [104, 101], "cache_salt": "s", "ignore_eos": true})");
  const auto request = server.generator.last_request();
  EXPECT_EQ(request->sampling->temperature, 0.5);
  EXPECT_EQ(request->sampling->top_k, 0);
  EXPECT_EQ(request->sampling->seed, 7U);
  EXPECT_EQ(request->sampling->end_token_ids, (std::vector<TokenId>{9}));
  EXPECT_EQ(request->sampling->bad_words, (std::vector<std::vector<TokenId>>{{'x'}}));
  EXPECT_EQ(request->stop.stop_strings, std::vector<std::string>{"zz"});
  EXPECT_EQ(request->stop.max_tokens, 3);
  EXPECT_TRUE(request->stop.ignore_eos);
  EXPECT_NE(request->cache_salt, 0U);
  // A chat without a limit may use what the context leaves.
  ask(server, "/v1/chat/completions", R"({"messages": [{"role": "user", "content": "hi"}]})");
  const auto chat = server.generator.last_request();
  EXPECT_EQ(chat->stop.max_tokens, 256 - static_cast<int>(chat->prompt->size()));
}

// Of an answer's length: the request's own, else the model's default (a completion's is 16); the
// limit that the operator set holds for all.
TEST(ApiServer, DefaultAndLimitOfNewTokens) {
  ServerOptions options;
  options.sampling.max_new_tokens = 40;
  const std::string chat = R"({"messages": [{"role": "user", "content": "hi"}])";
  const auto granted = [&](std::string_view path, const std::string& body) {
    FakeServer server(options);
    ask(server, path, body);
    return server.generator.last_request()->stop.max_tokens;
  };
  EXPECT_EQ(granted("/v1/chat/completions", chat + "}"), 40);
  EXPECT_EQ(granted("/v1/chat/completions", chat + R"(, "max_tokens": 50})"), 50);
  EXPECT_EQ(granted("/v1/completions", R"({"prompt": "a"})"), 16);
  options.sampling.max_new_tokens_limit = 12;
  EXPECT_EQ(granted("/v1/chat/completions", chat + "}"), 12);
  EXPECT_EQ(granted("/v1/chat/completions", chat + R"(, "max_tokens": 50})"), 12);
  EXPECT_EQ(granted("/v1/completions", R"({"prompt": "a", "max_tokens": 3})"), 3);
}

TEST(ApiServer, ContextLength) {
  FakeServer server;
  const auto too_long = ask(server, "/v1/completions",
                            fmt::format(R"({{"prompt": "{}"}})", std::string(300, 'x')), 400);
  EXPECT_EQ(too_long.at("error").at("code").as_string(), "context_length_exceeded");
  const auto message = json::value_to<std::string>(too_long.at("error").at("message"));
  EXPECT_NE(message.find("256"), std::string::npos);
  EXPECT_NE(message.find("300"), std::string::npos);
  ask(server, "/v1/completions", R"({"prompt": "abc", "max_tokens": 254})", 400);
  ask(server, "/v1/completions", R"({"prompt": "abc", "max_tokens": 253})");
  const auto cut =
      ask(server, "/v1/completions",
          fmt::format(R"({{"prompt": "{}", "truncate_prompt_tokens": 5}})", std::string(300, 'x')));
  EXPECT_EQ(cut.at("usage").at("prompt_tokens").as_int64(), 5);
}

TEST(ApiServer, ModelDependentChecks) {
  FakeServer server;
  EXPECT_EQ(ask(server, "/v1/completions", R"({"prompt": [1, 999]})", 400)
                .at("error")
                .at("param")
                .as_string(),
            "prompt");
  ask(server, "/v1/completions", R"({"prompt": "x", "logit_bias": {"999": 1}})", 400);
  ask(server, "/v1/completions", R"({"prompt": "x", "logprobs": 21})", 400);
  ask(server, "/v1/completions", R"({"prompt": ""})", 400);
  const auto unknown = ask(server, "/v1/completions", R"({"prompt": "x", "model": "other"})", 404);
  EXPECT_EQ(unknown.at("error").at("type").as_string(), "NotFoundError");
  EXPECT_EQ(unknown.at("error").at("code").as_int64(), 404);
  ask(server, "/v1/chat/completions", std::string(kChat) + R"(, "chat_template": "x"})", 400);
}

TEST(ApiServer, EngineRefusalsAndFailures) {
  {
    FakeServer server;
    server.generator.refuse();
    RawClient client(server.server->port());
    client.post("/v1/completions", R"({"prompt": "x", "stream": true})");
    const auto reply = client.read();
    EXPECT_EQ(reply.status, 503);
    EXPECT_TRUE(reply.headers.count("retry-after"));
  }
  {
    FakeServer server;
    server.generator.fail_after(2);
    ask(server, "/v1/completions", R"({"prompt": "x"})", 500);
    const auto events = ask_stream(server, "/v1/completions", R"({"prompt": "x", "stream": true})");
    EXPECT_EQ(events.back().at("error").at("message").as_string(), "the engine broke");
  }
}

TEST(ApiServer, TokenizeAndDetokenize) {
  FakeServer server;
  const auto body = ask(server, "/tokenize", R"({"prompt": "ab", "return_token_strs": true})");
  EXPECT_EQ(json::serialize(body),
            R"({"count":2,"max_model_len":256,"tokens":[97,98],"token_strs":["a","b"]})");
  EXPECT_EQ(ask(server, "/tokenize", R"({"prompt": ""})").at("count").as_int64(), 0);
  EXPECT_GT(ask(server, "/tokenize", R"({"messages": [{"role": "user", "content": "x"}]})")
                .at("count")
                .as_int64(),
            3);
  EXPECT_EQ(ask(server, "/detokenize", R"({"tokens": [97, 98]})").at("prompt").as_string(), "ab");
  for (const char* bad : {"{}", R"({"prompt": 5})", R"({"prompt": ["a"]})", R"({"messages": "x"})"})
    ask(server, "/tokenize", bad, 400);
  for (const char* bad :
       {"[-1]", "[\"a\"]", "\"abc\"", "[1.5]", "[99999999999999999999]", "[999]"}) {
    ask(server, "/detokenize", fmt::format(R"({{"tokens": {}}})", bad), 400);
  }
  ask(server, "/tokenize", R"({"prompt": "x", "model": "other"})", 404);
}

TEST(ApiServer, ModelsHealthVersionMetrics) {
  FakeServer server;
  const auto get = [&](std::string_view path) {
    RawClient client(server.server->port());
    client.get(path);
    return client.read();
  };
  const auto card = json::parse(get("/v1/models").body).at("data").at(0);
  EXPECT_EQ(card.at("id").as_string(), "tiny");
  EXPECT_EQ(card.at("max_model_len").as_int64(), 256);
  EXPECT_EQ(get("/v1/models/tiny").status, 200);
  EXPECT_EQ(get("/v1/models/other").status, 404);
  EXPECT_EQ(get("/v1/models?x=y").status, 200);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/version").status, 200);
  EXPECT_EQ(json::parse(get("/load").body).at("server_load").as_int64(), 0);
  const auto metrics = get("/metrics");
  EXPECT_EQ(metrics.headers.at("content-type").substr(0, 10), "text/plain");
  for (const char* name :
       {"vllm:num_requests_running{", "vllm:request_success_total{",
        "vllm:iteration_tokens_total_bucket{", "# TYPE vllm:prompt_tokens_total counter",
        "http_requests_total{handler=\"/v1/models\""}) {
    EXPECT_NE(metrics.body.find(name), std::string::npos) << name;
  }
  const auto wrong = get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_NE(wrong.headers.at("allow").find("POST"), std::string::npos);
  EXPECT_TRUE(json::parse(wrong.body).at("error").is_object());
  EXPECT_EQ(get("/nope").status, 404);
  server.generator.get_stuck();
  EXPECT_EQ(get("/health").status, 503);
}

TEST(ApiServer, ErrorsAreShortAndAlwaysUtf8) {
  FakeServer server;
  RawClient client(server.server->port());
  client.get("/v1/models/%ff%C3%A9");
  const std::string message = json::value_to<std::string>(
      json::parse(client.read().body).at("error").at("message"));  // throws on invalid UTF-8
  EXPECT_NE(message.find("\xEF\xBF\xBD\xC3\xA9"), std::string::npos) << message;

  const auto body = ask(server, "/v1/completions",
                        R"({"prompt": "a", "model": ")" + std::string(100000, 'x') + "\"}", 404);
  EXPECT_LT(body.at("error").at("message").as_string().size(), 2100U);
}

TEST(ApiServer, RequestIdsAreUtf8AndBodiesAreNotCompressed) {
  FakeServer server;
  RawClient client(server.server->port());
  client.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})", "X-Request-Id: a\xFF\r\n");
  EXPECT_EQ(json::parse(client.read().body).at("id").as_string(), "cmpl-a\xEF\xBF\xBD");
  client.post("/v1/completions", R"({"prompt": "a"})", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(client.read().status, 415);
  client.post("/v1/completions", R"({"prompt": "a"})", "Content-Encoding: identity\r\n");
  EXPECT_EQ(client.read().status, 200);
}

TEST(ApiServer, WrongDefaultsAreToldAtTheStart) {
  FakeServer parts;
  const auto start = [&](ServerOptions options) {
    options.port = 0;
    options.served_model_names = {"tiny"};
    auto started = ApiServer::start(options, {&parts.generator, &parts.text, &parts.metrics});
    return started ? std::string() : started.error().message;
  };
  ServerOptions kwargs, temperature, ends;
  kwargs.default_chat_template_kwargs = "[1]";
  EXPECT_NE(start(kwargs).find("--default-chat-template-kwargs"), std::string::npos);
  temperature.sampling.temperature = -1;
  EXPECT_NE(start(temperature).find("generation config: temperature"), std::string::npos);
  ends.eos_ids = {-1, 5, 1 << 30};
  EXPECT_EQ(start(ends), "");
}

TEST(ApiServer, SeedsOfRequestsWithoutOneFollowTheServers) {
  std::vector<std::uint64_t> seen;
  for (int run = 0; run < 2; ++run) {
    ServerOptions options;
    options.seed = 42;
    FakeServer server(options);
    for (int i = 0; i < 2; ++i) {
      ask(server, "/v1/completions", R"({"prompt": "x", "max_tokens": 1})");
      seen.push_back(server.generator.last_request()->sampling->seed);
    }
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
  EXPECT_EQ(seen[1], seen[3]);
}

}  // namespace
}  // namespace quire
