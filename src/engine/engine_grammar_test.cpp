// Requests whose answers must fit a grammar, through the whole engine: the fake device draws the
// first allowed token from its own choice on.
#include <gtest/gtest.h>

#include <regex>

#include "base/clock.h"
#include "engine/engine_test_util.h"
#include "text/grammar.h"

namespace quire {
namespace {

using test::byte_tokenizer;
using test::Client;
using test::FakeDevice;
using test::kEos;

// With steps planned one after the other, and ahead.
class EngineGrammarTest : public testing::TestWithParam<bool> {
 protected:
  void start(std::int32_t num_blocks = 512, std::int32_t budget = 64) {
    EngineOptions options;
    options.scheduler = scheduler_options({num_blocks});
    options.scheduler.max_num_batched_tokens = budget;
    options.scheduler.async_scheduling = GetParam();
    options.scheduler.forecast_growth = false;  // it would leave hardly any preemption to test
    auto device = std::make_unique<FakeDevice>(options.scheduler.kv);
    device_ = device.get();
    engine_ = std::make_unique<Engine>(options, std::move(device), tokenizer_.get(), nullptr);
  }
  std::shared_ptr<const Grammar> regex(const std::string& text) {
    GrammarSpec spec;
    spec.kind = GrammarSpec::Kind::kRegex;
    spec.text = text;
    return compiler_.compile(spec).value();
  }
  Request request(TokenId seed, std::shared_ptr<const Grammar> grammar, Client& client,
                  SamplingParams params = {}) {
    Request r = make_request(engine_->next_id().value, {seed, 7, 8, 9, seed}, 40, params);
    r.external_id = "test";
    r.arrival_s = now_s();
    r.stop.eos_ids = {kEos};
    r.grammar = std::move(grammar);
    r.channel = client.channel();
    return r;
  }
  OutputDelta run(Request r, Client& client) {
    EXPECT_TRUE(engine_->submit(std::move(r)));
    return client.read_all();
  }

  std::unique_ptr<Tokenizer> tokenizer_ = byte_tokenizer();
  GrammarCompiler compiler_{tokenizer_.get(), {kEos}, tokenizer_->vocab_size()};
  FakeDevice* device_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

TEST_P(EngineGrammarTest, AnswersFitAndEndWithTheEndToken) {
  start();
  for (TokenId seed = 0; seed < 20; ++seed) {
    Client client;
    const OutputDelta all = run(request(seed, regex("(GET|POST) /[a-z]{1,6}"), client), client);
    EXPECT_TRUE(std::regex_match(all.text, std::regex("(GET|POST) /[a-z]{1,6}"))) << all.text;
    EXPECT_EQ(all.finish, FinishReason::kStop);
    EXPECT_EQ(all.tokens.back().id, kEos);
    EXPECT_EQ(static_cast<std::size_t>(all.completion_tokens), all.text.size() + 1);
  }
}

TEST_P(EngineGrammarTest, TheSameAloneAndUnderPreemption) {
  const auto answers = [&](std::int32_t num_blocks, bool together) {
    start(num_blocks, together ? 16 : 64);
    device_->hold(together);  // until all have come
    std::vector<std::unique_ptr<Client>> clients;
    std::vector<std::string> texts;
    for (TokenId seed = 0; seed < 24; ++seed) {
      clients.push_back(std::make_unique<Client>());
      // Half of them without a grammar: rows with and without masks in one step.
      auto grammar = seed % 2 == 0 ? regex("[a-f]{8,30}") : nullptr;
      EXPECT_TRUE(engine_->submit(request(seed, grammar, *clients.back())));
      if (!together) texts.push_back(clients.back()->read_all().text);
    }
    device_->hold(false);
    if (together) {
      for (auto& client : clients) texts.push_back(client->read_all().text);
      EXPECT_GT(engine_->stats().scheduler.preemptions, 0);
    }
    const Status status = engine_->check_integrity();
    EXPECT_TRUE(status) << status.error().message;
    return texts;
  };
  const auto alone = answers(512, false);
  EXPECT_EQ(answers(24, true), alone);
  EXPECT_TRUE(std::regex_match(alone.front(), std::regex("[a-f]{8,30}"))) << alone.front();
}

TEST_P(EngineGrammarTest, EveryChoiceFits) {
  start();
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Request> choices;
  for (std::uint32_t i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>());
    SamplingParams params;
    params.choice = i;
    choices.push_back(request(1, regex("[a-f]{4,9}-[0-9]"), *clients.back(), params));
    choices.back().family = choices.front().id;
    choices.back().prompt = choices.front().prompt;
  }
  ASSERT_TRUE(engine_->submit(std::move(choices)));
  for (auto& client : clients) {
    const OutputDelta all = client->read_all();
    EXPECT_TRUE(std::regex_match(all.text, std::regex("[a-f]{4,9}-[0-9]"))) << all.text;
    EXPECT_EQ(all.finish, FinishReason::kStop);
  }
}

TEST_P(EngineGrammarTest, MinTokensAndIgnoredEndsGiveWayToTheGrammar) {
  start();
  SamplingParams params;
  params.min_tokens = 30;
  params.end_token_ids = {kEos};
  Client first;
  const OutputDelta early = run(request(1, regex("abc"), first, params), first);
  EXPECT_EQ(early.text, "abc");
  EXPECT_EQ(early.finish, FinishReason::kStop);

  Client second;
  Request r = request(1, regex("ab?c?"), second);
  r.stop.ignore_eos = true;
  const OutputDelta ignoring = run(std::move(r), second);
  EXPECT_EQ(ignoring.text, "abc");  // no end token while more may follow
  EXPECT_EQ(ignoring.finish, FinishReason::kStop);
  EXPECT_EQ(ignoring.completion_tokens, 3);

  Client third;
  Request no_end = request(1, regex("xy"), third);
  no_end.stop.eos_ids.clear();
  EXPECT_EQ(run(std::move(no_end), third).text, "xy");
}

TEST_P(EngineGrammarTest, LengthStopStringsAndStopTokens) {
  start();
  Client first;
  Request r = request(1, regex("[a-z]{100}"), first);
  r.stop.max_tokens = 5;
  const OutputDelta cut = run(std::move(r), first);
  EXPECT_EQ(cut.finish, FinishReason::kLength);
  EXPECT_EQ(cut.text.size(), 5u);

  Client second;
  r = request(1, regex("one two three"), second);
  r.stop.stop_strings = {" t"};
  const OutputDelta stopped = run(std::move(r), second);
  EXPECT_EQ(stopped.text, "one");
  EXPECT_EQ(stopped.stop_string, " t");
  EXPECT_EQ(stopped.completion_tokens, 5);

  Client third;
  r = request(1, regex("abcd"), third);
  r.stop.stop_token_ids = {'c'};
  const OutputDelta token = run(std::move(r), third);
  EXPECT_EQ(token.text, "ab");
  EXPECT_EQ(token.stop_token, 'c');
}

TEST_P(EngineGrammarTest, BeginsAfterTheGivenTokens) {
  start();
  Client client;
  Request r = request(3, regex("yes"), client);
  r.stop.max_tokens = 200;
  r.grammar_start = {};
  // The fake device draws all bytes: one that is sure to come, and what follows it is the grammar.
  Client probe;
  Request free_request = request(3, nullptr, probe);
  const OutputDelta unbound = run(std::move(free_request), probe);
  ASSERT_GT(unbound.tokens.size(), 5u);
  r.grammar_start = {unbound.tokens[3].id, unbound.tokens[4].id};
  const OutputDelta all = run(std::move(r), client);
  ASSERT_EQ(all.tokens.size(), 5u + 4u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(all.tokens[i].id, unbound.tokens[i].id);
  EXPECT_TRUE(all.text.ends_with("yes")) << all.text;
  EXPECT_EQ(all.finish, FinishReason::kStop);
}

TEST_P(EngineGrammarTest, AGrammarThatCannotGoOnEndsItsRequestOnly) {
  start();
  // The vocabulary of this compiler has no byte above 'z': nothing can follow the first token.
  GrammarCompiler small(tokenizer_.get(), {}, 'b');
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kRegex;
  spec.text = "[a-c]z";
  Client client, other;
  ASSERT_TRUE(engine_->submit(request(5, regex("[0-9]{20}"), other)));
  const OutputDelta all = run(request(1, small.compile(spec).value(), client), client);
  EXPECT_EQ(all.finish, FinishReason::kError);
  ASSERT_TRUE(all.error);
  EXPECT_EQ(all.text, "a");
  EXPECT_EQ(other.read_all().text.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Async, EngineGrammarTest, testing::Bool(), [](const auto& param_info) {
  return param_info.param ? "async" : "one_by_one";
});

}  // namespace
}  // namespace quire
