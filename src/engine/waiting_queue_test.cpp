// Who is next: priorities, preempted sequences, clients that take turns.
#include "engine/waiting_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "engine/scheduler_test_util.h"

namespace quire {
namespace {

class Waiting : public testing::Test {
 protected:
  Sequence* make(std::uint64_t id, std::int64_t priority = 0, std::uint64_t client = 0,
                 std::size_t prompt_tokens = 10, std::int32_t max_tokens = 10) {
    Request request = make_request(id, std::vector<TokenId>(prompt_tokens, 1), max_tokens);
    request.priority = priority;
    request.client = client;
    sequences_.push_back(std::make_unique<Sequence>(std::move(request)));
    sequences_.back()->rank = {priority, id};
    return sequences_.back().get();
  }
  Sequence* add(std::uint64_t id, std::int64_t priority = 0, std::uint64_t client = 0,
                std::size_t prompt_tokens = 10, std::int32_t max_tokens = 10) {
    Sequence* const sequence = make(id, priority, client, prompt_tokens, max_tokens);
    queue_.add(sequence);
    return sequence;
  }
  std::vector<std::uint64_t> drain() {
    std::vector<std::uint64_t> ids;
    for (; queue_.front() != nullptr; queue_.pop_front())
      ids.push_back(queue_.front()->request.id.value);
    EXPECT_TRUE(queue_.empty());
    EXPECT_EQ(queue_.num_tokens(), 0);
    return ids;
  }

  WaitingQueue queue_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

using Ids = std::vector<std::uint64_t>;

TEST_F(Waiting, InTheOrderOfArrival) {
  for (std::uint64_t id = 1; id <= 4; ++id) add(id);
  EXPECT_EQ(queue_.size(), 4u);
  EXPECT_EQ(queue_.num_tokens(), 40);
  EXPECT_EQ(drain(), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(queue_.front(), nullptr);
}

TEST_F(Waiting, SmallerPriorityFirst) {
  add(1, 5);
  add(2, -3);
  add(3, 5);
  add(4, 0);
  EXPECT_EQ(drain(), (Ids{2, 4, 1, 3}));
}

TEST_F(Waiting, PreemptedOnesComeBeforeNewOnesOfTheirPriorityInTheOrderOfRank) {
  add(10, 1);
  queue_.add_preempted(make(3, 1));
  queue_.add_preempted(make(2, 1));
  queue_.add_preempted(make(4, 2));
  add(11, 0);
  EXPECT_EQ(queue_.num_preempted(), 3u);
  EXPECT_EQ(drain(), (Ids{11, 2, 3, 10, 4}));
}

TEST_F(Waiting, RemovesFromAnyPlace) {
  Sequence* const first = add(1, 0, 7);
  Sequence* const second = add(2, 0, 8);
  Sequence* const preempted = make(3);
  queue_.add_preempted(preempted);
  add(4, 1, 7);
  EXPECT_TRUE(queue_.remove(preempted));
  EXPECT_TRUE(queue_.remove(first));
  EXPECT_FALSE(queue_.remove(first));
  EXPECT_TRUE(queue_.remove(second));
  EXPECT_EQ(drain(), (Ids{4}));
}

// 500 requests of one client are there when another comes with one.
TEST_F(Waiting, OneRequestDoesNotWaitForAHundredsOfAnotherClient) {
  for (std::uint64_t id = 1; id <= 500; ++id) add(id, 0, 1, 100, 100);
  add(501, 0, 2, 100, 100);
  const Ids ids = drain();
  const auto place = std::ranges::find(ids, 501u) - ids.begin();
  EXPECT_LE(place, ClientTurns::kTurnTokens / 200 + 1);
}

// Over any stretch in which both wait, two clients get the same number of tokens, but for one
// request and one turn, however different their requests are.
TEST_F(Waiting, ClientsGetTheSameNumberOfTokens) {
  std::mt19937 random(3);
  const auto upto = [&](unsigned n) { return static_cast<std::size_t>(1 + random() % n); };
  for (std::uint64_t id = 0; id < 2000; ++id) {
    const bool big = id % 2 == 0;
    add(id, 0, big ? 1 : 2, upto(big ? 4000 : 50), static_cast<std::int32_t>(upto(big ? 300 : 20)));
  }
  std::int64_t got[3] = {};
  constexpr std::int64_t kLongest = 4000 + 300;  // a client saves up for what it has not got yet
  int left[3] = {0, 1000, 1000};
  while (left[1] > 0 && left[2] > 0) {
    Sequence* const next = queue_.front();
    ASSERT_EQ(queue_.front(), next);
    const std::int64_t cost = ClientTurns::cost_tokens(*next);
    got[next->request.client] += cost;
    --left[next->request.client];
    queue_.pop_front();
    ASSERT_LE(std::abs(got[1] - got[2]), 2 * (kLongest + ClientTurns::kTurnTokens));
  }
  EXPECT_EQ(left[2], 0);  // the client with small requests was served as fast as it could be
}

// Against a list that is searched anew each time: every id comes out once, priorities in order.
TEST_F(Waiting, RandomOperationsKeepPrioritiesAndCounts) {
  std::mt19937 random(1);
  std::vector<Sequence*> model;
  std::uint64_t next_id = 1;
  for (int i = 0; i < 20000; ++i) {
    const unsigned what = random() % 8;
    if (what < 3) {
      model.push_back(add(next_id++, random() % 3, random() % 5, 1 + random() % 3000));
    } else if (what == 3) {
      model.push_back(make(next_id++, random() % 3));
      queue_.add_preempted(model.back());
    } else if (what == 4 && !model.empty()) {
      Sequence* const gone = model[random() % model.size()];
      ASSERT_TRUE(queue_.remove(gone));
      std::erase(model, gone);
    } else if (!model.empty()) {
      Sequence* const next = queue_.front();
      for (const Sequence* other : model)
        ASSERT_LE(next->rank.priority, other->rank.priority) << other->request.id.value;
      queue_.pop_front();
      ASSERT_EQ(std::erase(model, next), 1u);
    }
    ASSERT_EQ(queue_.size(), model.size());
    ASSERT_EQ(queue_.front() == nullptr, model.empty());
  }
}

}  // namespace
}  // namespace quire
