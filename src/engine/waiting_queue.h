// Sequences that wait to run, and which of them is next: by priority; among equals preempted ones
// first, then new ones. New ones of several clients take turns by deficit round robin (Shreedhar
// and Varghese, 1995) counted in tokens, so that a client with 500 requests does not hold up one
// with a single request; those of one client come in the order of arrival.
//
// Owned by the Scheduler, engine thread. Holds pointers to sequences that the Scheduler owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

#include "engine/sequence.h"

namespace quire {

// New sequences of one priority: a queue per client, and whose turn it is.
class ClientTurns {
 public:
  void add(Sequence* sequence);
  bool remove(Sequence* sequence);
  // The one whose turn it is; stays the same until it is taken or removed. Not to be called when
  // empty.
  Sequence* front();
  void pop_front();
  bool empty() const { return round_.empty(); }

  // Tokens that a client's credit grows by in each round: fewer than most requests cost, so that a
  // client with many small ones does not send them all in its turn.
  static constexpr std::int64_t kTurnTokens = 64;
  // What a request is taken to cost before anybody knows the length of its answer.
  static std::int64_t cost_tokens(const Sequence& sequence);

 private:
  struct Client {
    std::uint64_t id = 0;
    std::int64_t credit_tokens = 0;
    std::deque<Sequence*> waiting;  // never empty
  };
  using Round = std::list<Client>;

  void drop_if_done(Round::iterator client);

  Round round_;  // the first one's turn
  std::unordered_map<std::uint64_t, Round::iterator> by_id_;
};

class WaitingQueue {
 public:
  void add(Sequence* sequence);  // never ran
  void add_preempted(Sequence* sequence);
  bool remove(Sequence* sequence);
  // The next one, or null.
  Sequence* front();
  void pop_front();

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Known tokens of all that wait: what has to be computed before they go on.
  std::int64_t num_tokens() const { return num_tokens_; }
  std::size_t num_preempted() const { return preempted_.size(); }

 private:
  bool preempted_is_next() const;
  void count(const Sequence& sequence, int direction);

  std::vector<Sequence*> preempted_;           // the most urgent one last
  std::map<std::int64_t, ClientTurns> fresh_;  // by priority; no entry is empty
  std::size_t size_ = 0;
  std::int64_t num_tokens_ = 0;
};

}  // namespace quire
