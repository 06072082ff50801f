// The engine's threads together, over a fake device: order, stops, aborts at random moments, drain,
// pressure.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <random>

#include "base/clock.h"
#include "engine/engine_test_util.h"
#include "engine/output_channel.h"
#include "engine/queue_rate.h"

namespace quire {
namespace {

using test::Client;
using test::FakeDevice;

struct CountingObserver : EngineObserver {
  std::atomic<int> first{0}, gaps{0}, finished{0}, steps{0};
  void on_first_token(double ttft_s) override {
    EXPECT_GE(ttft_s, 0);
    ++first;
  }
  void on_inter_token(double) override { ++gaps; }
  void on_finished(const RequestTimings& t) override {
    if (t.first_token_s > 0) {
      EXPECT_LE(t.arrival_s, t.scheduled_s);
      EXPECT_LE(t.scheduled_s, t.first_token_s);
      EXPECT_LE(t.first_token_s, t.finished_s);
    }
    ++finished;
  }
  void on_step(std::int32_t num_tokens, double) override {
    EXPECT_GT(num_tokens, 0);
    ++steps;
  }
};

// With steps planned one after the other, and ahead.
class EngineTest : public ::testing::TestWithParam<bool> {
 protected:
  void start(std::int32_t num_blocks = 64, std::int32_t max_num_seqs = 8,
             std::size_t max_queued = 0, double step_s = 0) {
    EngineOptions options;
    options.scheduler.max_num_batched_tokens = 32;
    options.scheduler.max_num_seqs = max_num_seqs;
    options.scheduler.max_model_len = 100;
    options.scheduler.kv.block_size = 4;
    options.scheduler.kv.groups = {{num_blocks, 0, false}};
    options.scheduler.async_scheduling = GetParam();
    options.scheduler.forecast_growth = false;  // preemptions are to be seen
    options.max_queued_requests = max_queued;
    auto device = std::make_unique<FakeDevice>(options.scheduler.kv, step_s);
    device_ = device.get();
    engine_ = std::make_unique<Engine>(std::move(options), std::move(device), tokenizer_.get(),
                                       &observer_);
  }

  Request request(std::vector<TokenId> prompt, std::int32_t max_tokens, const Client& client) {
    Request r;
    r.id = engine_->next_id();
    r.external_id = "test-" + std::to_string(r.id.value);
    r.prompt = std::make_shared<const std::vector<TokenId>>(std::move(prompt));
    SamplingParams params;
    params.logprobs = -1;
    r.sampling = std::make_shared<const SamplingParams>(params);
    r.stop.max_tokens = max_tokens;
    r.arrival_s = now_s();
    r.channel = client.channel();
    return r;
  }

  // What the fake device generates after `prompt`.
  static std::vector<TokenId> expected(std::vector<TokenId> tokens, std::size_t count) {
    std::vector<TokenId> out;
    while (out.size() < count) {
      out.push_back(fake_next_token(tokens));
      tokens.push_back(out.back());
    }
    return out;
  }
  static std::vector<TokenId> ids_of(const OutputDelta& delta) {
    std::vector<TokenId> ids;
    for (const OutputToken& token : delta.tokens) ids.push_back(token.id);
    return ids;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = test::byte_tokenizer();
  CountingObserver observer_;
  FakeDevice* device_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

TEST_P(EngineTest, ManyRequestsGetTheirOwnTokensInOrder) {
  start(24);  // less than all need together: preemption
  std::vector<std::unique_ptr<Client>> clients;
  for (TokenId i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<Client>());
    ASSERT_TRUE(engine_->submit(request({i, i + 1, 7, 8, 9, 10, i}, 20, *clients.back())));
  }
  std::int64_t generated = 0;
  for (TokenId i = 0; i < 40; ++i) {
    const OutputDelta all = clients[static_cast<std::size_t>(i)]->read_all();
    EXPECT_EQ(ids_of(all), expected({i, i + 1, 7, 8, 9, 10, i}, 20));
    EXPECT_EQ(all.finish, FinishReason::kLength);
    EXPECT_EQ(all.completion_tokens, 20);
    generated += all.completion_tokens;
  }
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.generation_tokens, generated);
  EXPECT_EQ(stats.prompt_tokens, 40 * 7);
  EXPECT_GT(stats.steps, 20);
  EXPECT_GT(stats.scheduler.preemptions, 0);
  const Status status = engine_->check_integrity();
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_TRUE(engine_->reset_prefix_cache());
  engine_.reset();
  EXPECT_EQ(observer_.first, 40);
  EXPECT_EQ(observer_.gaps, 40 * 19);
  EXPECT_EQ(observer_.finished, 40);
  EXPECT_EQ(observer_.steps, stats.steps);
}

TEST_P(EngineTest, PromptsOfAnotherRegimeShareNoPrefix) {
  start();
  const auto hits = [&](std::size_t prompt_tokens) {
    const std::int64_t before = engine_->stats().scheduler.kv.hit_tokens;
    Client client;
    const std::vector<TokenId> prompt(prompt_tokens, 65);
    EXPECT_TRUE(engine_->submit(request(prompt, 1, client)));
    client.read_all();
    return engine_->stats().scheduler.kv.hit_tokens - before;
  };
  EXPECT_EQ(hits(12), 0);
  EXPECT_EQ(hits(20), 12);  // three blocks of the first prompt
  EXPECT_EQ(hits(24), 0);   // FakeDevice::kv_regime is another from here on
  EXPECT_EQ(hits(28), 24);
}

TEST_P(EngineTest, StopStringEndsTheSequenceInTheEngineToo) {
  start();
  const std::vector<TokenId> tokens = expected({3, 1, 4}, 90);
  std::string text;
  for (const TokenId id : tokens) text += tokenizer_->token_bytes(id);
  Client client;
  Request r = request({3, 1, 4}, 90, client);
  std::size_t place = 0;  // the first token of the stop string: a printable one of its own
  while (tokens[place] < 33 || tokens[place] > 126) ++place;
  r.stop.stop_strings = {std::string(tokenizer_->token_bytes(tokens[place]))};
  ASSERT_TRUE(engine_->submit(std::move(r)));
  const OutputDelta all = client.read_all();
  EXPECT_EQ(all.finish, FinishReason::kStop);
  EXPECT_EQ(all.completion_tokens, static_cast<std::int32_t>(place) + 1);
  EXPECT_EQ(ids_of(all),
            std::vector<TokenId>(tokens.begin(), tokens.begin() + all.completion_tokens));
  EXPECT_TRUE(engine_->check_integrity());
}

TEST_P(EngineTest, RefusesWhatCanNeverFit) {
  start(8);
  Client client;
  EXPECT_EQ(engine_->submit(request({}, 4, client)).error().param, "prompt");
  EXPECT_EQ(engine_->submit(request(std::vector<TokenId>(100, 1), 4, client)).error().code,
            ErrorCode::kContextLength);
  EXPECT_EQ(engine_->submit(request(std::vector<TokenId>(40, 1), 4, client)).error().code,
            ErrorCode::kContextLength);
  ASSERT_TRUE(engine_->submit(request(std::vector<TokenId>(20, 1), 4, client)));
  EXPECT_EQ(client.read_all().finish, FinishReason::kLength);
}

TEST_P(EngineTest, APromptLongerThanTheCacheIsToldBothNumbers) {
  start(5);  // 20 tokens, one of them the answer's
  Client client;
  const Status refused = engine_->submit(request(std::vector<TokenId>(20, 7), 4, client));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  EXPECT_NE(refused.error().message.find("has 20 tokens"), std::string::npos);
  EXPECT_NE(refused.error().message.find("at most 19"), std::string::npos);
  ASSERT_TRUE(engine_->submit(request(std::vector<TokenId>(19, 7), 4, client)));
  EXPECT_EQ(client.read_all().finish, FinishReason::kLength);
}

TEST_P(EngineTest, AFullQueueSaysWhenToComeAgain) {
  start(64, 1, 1);
  device_->hold(true);
  Client clients[3];
  ASSERT_TRUE(engine_->submit(request({1}, 2, clients[0])));
  while (!engine_->stats().step_in_flight) std::this_thread::yield();
  ASSERT_TRUE(engine_->submit(request({2}, 2, clients[1])));
  const Status refused = engine_->submit(request({3}, 2, clients[2]));
  ASSERT_FALSE(refused);
  EXPECT_GE(refused.error().retry_after_s, 1);
  EXPECT_EQ(engine_->stats().rejected_by_requests, 1);
  device_->hold(false);
  EXPECT_EQ(clients[1].read_all().finish, FinishReason::kLength);
}

TEST_P(EngineTest, DeadlinesEndRequestsWithAnError) {
  start(64, 1);
  device_->hold(true);
  Client clients[3];
  ASSERT_TRUE(engine_->submit(request({1}, 50, clients[0])));
  while (!engine_->stats().step_in_flight) std::this_thread::yield();
  Request late = request({2}, 2, clients[1]), queued = request({3}, 2, clients[2]);
  late.deadline_s = now_s() - 1;
  queued.queue_deadline_s = now_s() - 1;
  ASSERT_TRUE(engine_->submit(std::move(late)));
  ASSERT_TRUE(engine_->submit(std::move(queued)));
  device_->hold(false);
  const OutputDelta timed_out = clients[1].read_some();
  ASSERT_TRUE(timed_out.error);
  EXPECT_EQ(timed_out.error->code, ErrorCode::kTimeout);
  EXPECT_EQ(timed_out.finish, FinishReason::kAbort);
  const OutputDelta too_busy = clients[2].read_some();
  ASSERT_TRUE(too_busy.error);
  EXPECT_EQ(too_busy.error->code, ErrorCode::kUnavailable);
  EXPECT_EQ(clients[0].read_all().finish, FinishReason::kLength);
  const Status intact = engine_->check_integrity();
  EXPECT_TRUE(intact) << intact.error().message;
}

TEST(QueueRate, CountsStartsPerSecondWhileSomebodyWaits) {
  QueueRate rate;
  for (int i = 0; i <= 100; ++i) rate.observe(i, 4 * i, true);
  EXPECT_NEAR(rate.per_s(), 4, 0.1);
  rate.observe(101, 404, false);
  rate.observe(5000, 404, true);  // nobody waited meanwhile
  EXPECT_NEAR(rate.per_s(), 4, 0.1);
  QueueRate stuck;
  stuck.observe(0, 0, true);
  stuck.observe(100, 0, true);
  EXPECT_LT(stuck.per_s(), 0.02);
}

TEST_P(EngineTest, FullQueueIsUnavailable) {
  start(64, 1, 2);
  device_->hold(true);
  Client clients[4];
  ASSERT_TRUE(engine_->submit(request({1}, 2, clients[0])));
  while (!engine_->stats().step_in_flight) std::this_thread::yield();
  EXPECT_TRUE(engine_->submit(request({2}, 2, clients[1])));
  EXPECT_TRUE(engine_->submit(request({3}, 2, clients[2])));
  EXPECT_EQ(engine_->stats().scheduler.waiting, 2);
  const Status refused = engine_->submit(request({4}, 2, clients[3]));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  device_->hold(false);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(clients[i].read_all().completion_tokens, 2);
  EXPECT_TRUE(engine_->submit(request({4}, 2, clients[3])));
  EXPECT_EQ(clients[3].read_all().completion_tokens, 2);
}

TEST_P(EngineTest, AbortAnswersAtOnceEvenDuringAStep) {
  start();
  device_->hold(true);
  Client client;
  Request r = request({1, 2}, 50, client);
  const RequestId id = r.id;
  ASSERT_TRUE(engine_->submit(std::move(r)));
  while (!engine_->stats().step_in_flight) std::this_thread::yield();
  engine_->abort(id);
  engine_->abort(id);
  EXPECT_EQ(client.read_all().finish, FinishReason::kAbort);
  device_->hold(false);
  EXPECT_TRUE(engine_->check_integrity());
  EXPECT_FALSE(client.channel()->take());
  engine_->abort(id);
  engine_->abort(RequestId{999999});
  EXPECT_TRUE(engine_->check_integrity());
}

TEST_P(EngineTest, SlowClientIsAborted) {
  start();
  Client client(1000);
  ASSERT_TRUE(engine_->submit(request({1, 2}, 90, client)));
  while (observer_.finished == 0) std::this_thread::yield();
  EXPECT_EQ(client.read_all().finish, FinishReason::kAbort);
  EXPECT_TRUE(engine_->check_integrity());
}

TEST_P(EngineTest, DrainFinishesWhatRunsAndRefusesMore) {
  start(64, 8, 0, 1e-3);
  Client clients[6];
  for (Client& client : clients) ASSERT_TRUE(engine_->submit(request({5, 6}, 10, client)));
  EXPECT_TRUE(engine_->drain(30));
  for (Client& client : clients) EXPECT_EQ(client.read_all().finish, FinishReason::kLength);
  Client late;
  EXPECT_EQ(engine_->submit(request({1}, 1, late)).error().code, ErrorCode::kUnavailable);
}

TEST_P(EngineTest, DrainAbortsTheRestAtTheLimit) {
  start();
  device_->hold(true);
  Client clients[3];
  for (Client& client : clients) ASSERT_TRUE(engine_->submit(request({5, 6}, 10, client)));
  EXPECT_FALSE(engine_->drain(0.02));
  for (Client& client : clients) EXPECT_EQ(client.read_all().finish, FinishReason::kAbort);
  device_->hold(false);
  EXPECT_TRUE(engine_->check_integrity());
}

TEST_P(EngineTest, DestructionAbortsWhatRuns) {
  start(64, 2, 0, 1e-3);
  Client clients[5];
  for (Client& client : clients) ASSERT_TRUE(engine_->submit(request({5, 6}, 90, client)));
  engine_.reset();
  for (Client& client : clients) EXPECT_EQ(client.read_all().finish, FinishReason::kAbort);
  EXPECT_EQ(observer_.finished, 5);
}

TEST_P(EngineTest, AThousandRequestsWithRandomAborts) {
  start(40);
  std::atomic<int> ended{0}, aborted{0};
  const auto run = [&](unsigned seed) {
    std::mt19937 rng(seed);
    for (int i = 0; i < 250; ++i) {
      Client client;
      std::vector<TokenId> prompt(1 + rng() % 30);
      for (TokenId& id : prompt) id = static_cast<TokenId>(rng() % 3);
      const auto max_tokens = static_cast<std::int32_t>(1 + rng() % 20);
      Request r = request(prompt, max_tokens, client);
      const RequestId id = r.id;
      if (rng() % 4 == 0) r.stop.stop_strings = {"a", "bc"};
      const bool has_stops = !r.stop.stop_strings.empty();
      const Status status = engine_->submit(std::move(r));
      ASSERT_TRUE(status) << status.error().message;
      OutputDelta all;
      if (rng() % 2 == 0) {
        if (rng() % 2 == 0) {
          for (auto n = rng() % 4; n-- > 0 && !all.finish;) all = client.read_some();
        }
        engine_->abort(id);
      }
      if (!all.finish) all = client.read_all();
      ASSERT_TRUE(all.finish);
      if (*all.finish == FinishReason::kAbort) {
        ++aborted;
      } else if (!has_stops) {
        EXPECT_EQ(all.completion_tokens, max_tokens);
      }
      ++ended;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(run, t + 1);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 1000);
  EXPECT_GT(aborted, 100);
  const Status status = engine_->check_integrity();
  EXPECT_TRUE(status) << status.error().message;
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.scheduler.running, 0);
  EXPECT_EQ(stats.scheduler.waiting, 0);
  EXPECT_EQ(stats.scheduler.kv.used_blocks, 0);
  EXPECT_EQ(stats.scheduler.kv.free_blocks, stats.scheduler.kv.num_blocks);
}

INSTANTIATE_TEST_SUITE_P(Async, EngineTest, testing::Bool(), [](const auto& param_info) {
  return param_info.param ? "async" : "one_by_one";
});

}  // namespace
}  // namespace quire
