#include "engine/waiting_queue.h"

#include <algorithm>

#include "base/check.h"

namespace quire {

std::int64_t ClientTurns::cost_tokens(const Sequence& sequence) {
  constexpr std::int32_t kUsualAnswer = 256;  // tokens; clients rarely ask for what they need
  return std::int64_t{sequence.num_prompt} +
         std::min(sequence.request.stop.max_tokens, kUsualAnswer);
}

void ClientTurns::add(Sequence* sequence) {
  const std::uint64_t id = sequence->request.client;
  auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    // It has its turn when all others have had theirs.
    round_.push_back({id, round_.empty() ? kTurnTokens : 0, {}});
    found = by_id_.emplace(id, std::prev(round_.end())).first;
  }
  found->second->waiting.push_back(sequence);
}

bool ClientTurns::remove(Sequence* sequence) {
  const auto found = by_id_.find(sequence->request.client);
  if (found == by_id_.end()) return false;
  const bool known = std::erase(found->second->waiting, sequence) > 0;
  drop_if_done(found->second);
  return known;
}

Sequence* ClientTurns::front() {
  QUIRE_CHECK(!round_.empty());
  // Alone, a client need not save up.
  while (round_.size() > 1 &&
         round_.front().credit_tokens < cost_tokens(*round_.front().waiting.front())) {
    round_.splice(round_.end(), round_, round_.begin());
    round_.front().credit_tokens += kTurnTokens;
  }
  return round_.front().waiting.front();
}

void ClientTurns::pop_front() {
  Client& client = round_.front();
  client.credit_tokens =
      std::max<std::int64_t>(0, client.credit_tokens - cost_tokens(*client.waiting.front()));
  client.waiting.pop_front();
  drop_if_done(round_.begin());
}

// A client that has nothing to wait for keeps no credit.
void ClientTurns::drop_if_done(Round::iterator client) {
  if (!client->waiting.empty()) return;
  const bool had_turn = client == round_.begin();
  by_id_.erase(client->id);
  round_.erase(client);
  if (had_turn && !round_.empty()) round_.front().credit_tokens += kTurnTokens;
}

void WaitingQueue::count(const Sequence& sequence, int direction) {
  size_ = direction > 0 ? size_ + 1 : size_ - 1;
  num_tokens_ += std::int64_t{direction} * sequence.num_tokens();
}

void WaitingQueue::add(Sequence* sequence) {
  fresh_[sequence->rank.priority].add(sequence);
  count(*sequence, 1);
}

void WaitingQueue::add_preempted(Sequence* sequence) {
  const auto later = [](const Sequence* a, const Sequence* b) { return a->rank > b->rank; };
  preempted_.insert(std::ranges::upper_bound(preempted_, sequence, later), sequence);
  count(*sequence, 1);
}

bool WaitingQueue::remove(Sequence* sequence) {
  bool known = std::erase(preempted_, sequence) > 0;
  if (const auto turns = fresh_.find(sequence->rank.priority); !known && turns != fresh_.end()) {
    known = turns->second.remove(sequence);
    if (turns->second.empty()) fresh_.erase(turns);
  }
  if (known) count(*sequence, -1);
  return known;
}

bool WaitingQueue::preempted_is_next() const {
  return !preempted_.empty() &&
         (fresh_.empty() || preempted_.back()->rank.priority <= fresh_.begin()->first);
}

Sequence* WaitingQueue::front() {
  if (empty()) return nullptr;
  return preempted_is_next() ? preempted_.back() : fresh_.begin()->second.front();
}

void WaitingQueue::pop_front() {
  count(*front(), -1);
  if (preempted_is_next()) {
    preempted_.pop_back();
    return;
  }
  fresh_.begin()->second.pop_front();
  if (fresh_.begin()->second.empty()) fresh_.erase(fresh_.begin());
}

}  // namespace quire
