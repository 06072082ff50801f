// Merging, the byte cap and the end of a channel.
#include "engine/output_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/engine_log.h"

namespace quire {
namespace {

OutputDelta delta_of(std::string text, std::int32_t completion_tokens) {
  OutputDelta delta;
  delta.tokens.resize(1);
  delta.tokens[0].id = completion_tokens;
  delta.text = std::move(text);
  delta.completion_tokens = completion_tokens;
  return delta;
}

TEST(OutputChannel, MergesAndWakesOnce) {
  int wakes = 0;
  OutputChannel channel([&] { ++wakes; });
  EXPECT_FALSE(channel.take());
  OutputDelta first = delta_of("a", 1);
  first.has_prompt_logprobs = true;
  first.prompt_logprobs.resize(2);
  EXPECT_TRUE(channel.push(std::move(first)));
  EXPECT_TRUE(channel.push(delta_of("b", 2)));
  OutputDelta last = delta_of("c", 3);
  last.finish = FinishReason::kStop;
  last.stop_string = std::string("x");
  EXPECT_TRUE(channel.push(std::move(last)));
  EXPECT_EQ(wakes, 1);
  const auto got = channel.take();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text, "abc");
  ASSERT_EQ(got->tokens.size(), 3u);
  EXPECT_EQ(got->tokens[2].id, 3);
  EXPECT_EQ(got->completion_tokens, 3);
  EXPECT_EQ(got->prompt_logprobs.size(), 2u);
  EXPECT_TRUE(got->has_prompt_logprobs);
  EXPECT_EQ(got->finish, FinishReason::kStop);
  EXPECT_EQ(got->stop_string, "x");
  EXPECT_FALSE(channel.take());
  EXPECT_TRUE(channel.push(delta_of("d", 4)));
  EXPECT_EQ(wakes, 2);
}

TEST(OutputChannel, CapIsRefusedButTheEndGetsIn) {
  OutputChannel channel({}, 1000);
  EXPECT_TRUE(channel.push(delta_of(std::string(2000, 'x'), 1)));  // one delta is always taken
  EXPECT_FALSE(channel.push(delta_of("y", 2)));
  OutputDelta last;
  last.finish = FinishReason::kAbort;
  EXPECT_TRUE(channel.push(std::move(last)));
  const auto got = channel.take();
  EXPECT_EQ(got->text.size(), 2000u);
  EXPECT_EQ(got->finish, FinishReason::kAbort);
  EXPECT_TRUE(channel.push(delta_of("z", 3)));  // there is room again
}

TEST(OutputChannel, ClosedDropsEverything) {
  int wakes = 0;
  OutputChannel channel([&] { ++wakes; });
  channel.push(delta_of("a", 1));
  channel.close();
  EXPECT_TRUE(channel.closed());
  EXPECT_FALSE(channel.take());
  EXPECT_TRUE(channel.push(delta_of("b", 2)));
  EXPECT_FALSE(channel.take());
  EXPECT_EQ(wakes, 1);
}

TEST(OutputChannel, CloseWaitsForARunningWake) {
  std::atomic<bool> waking = false, woken = false;
  OutputChannel channel([&] {
    waking = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(channel.take());  // a reader may take at once
    woken = true;
  });
  std::thread writer([&] { channel.push(delta_of("a", 1)); });
  while (!waking) std::this_thread::yield();
  channel.close();
  EXPECT_TRUE(woken);
  writer.join();
}

TEST(FinishReason, Names) {
  EXPECT_EQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_EQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_reason_name(FinishReason::kAbort), "abort");
  EXPECT_EQ(finish_reason_name(FinishReason::kError), "error");
}

TEST(EngineLog, OneLineAPeriodWhileBusy) {
  EngineLog log(10);
  EngineStats stats;
  stats.scheduler.running = 3;
  stats.scheduler.waiting = 2;
  stats.scheduler.kv.num_blocks = 10;
  stats.scheduler.kv.used_blocks = 4;
  EXPECT_FALSE(log.line(stats, 100));
  stats.prompt_tokens = 500;
  stats.generation_tokens = 250;
  stats.scheduler.kv.query_tokens = 200;
  stats.scheduler.kv.hit_tokens = 50;
  EXPECT_FALSE(log.line(stats, 109));
  EXPECT_EQ(
      log.line(stats, 110),
      "engine: 50.0 prompt tok/s, 25.0 generation tok/s, running 3, waiting 2, KV usage 40.0 %, "
      "prefix hit 25.0 %");
  EXPECT_FALSE(log.line(stats, 119));
  log.idle();
  EXPECT_FALSE(log.line(stats, 500));  // the pause does not count
  EXPECT_TRUE(log.line(stats, 510));
}

}  // namespace
}  // namespace quire
