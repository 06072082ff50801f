// The engine with its threads and a real (tiny) model: a thousand requests with random aborts leave
// every block free.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "base/sanitized.h"
#include "engine/output_channel.h"
#include "step_driver.h"

namespace quire {
namespace {

// Counts ends as they come through the channels.
struct Outcome {
  std::mutex mutex;
  int finished = 0;
};

TEST(EngineSoak, ThousandRequestsWithRandomAborts) {
  EngineFlags flags;
  flags.max_num_seqs = 16;
  flags.max_num_batched_tokens = 96;
  LoadedModel model = load_for_test("tests/golden/llama", "float32", flags);
  Result<std::unique_ptr<Engine>> engine = start_engine(model, flags, nullptr);
  ASSERT_TRUE(engine);
  std::mt19937_64 rng(7);
  Outcome outcome;
  std::vector<std::shared_ptr<OutputChannel>> channels;
  std::vector<RequestId> ids;
  const int count = repeats(1000);
  for (int i = 0; i < count; ++i) {
    auto holder = std::make_shared<std::weak_ptr<OutputChannel>>();
    auto channel = std::make_shared<OutputChannel>([holder, &outcome] {
      const auto self = holder->lock();
      if (!self) return;
      while (const auto delta = self->take()) {
        if (!delta->finish) continue;
        std::lock_guard lock(outcome.mutex);
        ++outcome.finished;
      }
    });
    *holder = channel;
    channels.push_back(channel);
    std::vector<TokenId> prompt(1 + rng() % 100);
    for (TokenId& token : prompt) token = static_cast<TokenId>(4 + rng() % 508);
    auto sampling = std::make_shared<SamplingParams>();
    sampling->seed = rng();
    Request request;
    request.id = (*engine)->next_id();
    request.prompt = std::make_shared<std::vector<TokenId>>(std::move(prompt));
    request.sampling = sampling;
    request.stop.max_tokens = static_cast<std::int32_t>(1 + rng() % 60);
    request.stop.eos_ids = model.end_ids;
    if (rng() % 4 == 0) request.stop.stop_strings = {"e"};
    request.channel = channel;
    ids.push_back(request.id);
    const Status status = (*engine)->submit(std::move(request));
    ASSERT_TRUE(status) << status.error().message;
    if (rng() % 2 == 0) (*engine)->abort(ids[rng() % ids.size()]);
    if (rng() % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_TRUE((*engine)->drain(300));
  const Status integrity = (*engine)->check_integrity();
  EXPECT_TRUE(integrity) << integrity.error().message;
  const EngineStats stats = (*engine)->stats();
  EXPECT_EQ(stats.scheduler.kv.used_blocks, 0);
  EXPECT_EQ(stats.scheduler.running, 0);
  EXPECT_EQ(stats.scheduler.waiting, 0);
  std::lock_guard lock(outcome.mutex);
  EXPECT_EQ(outcome.finished, count) << "every request gets a reply";
}

}  // namespace
}  // namespace quire
