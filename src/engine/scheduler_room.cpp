// Who has room: preemption, and admission by what is known of growth.
#include <algorithm>

#include "base/check.h"
#include "engine/scheduler.h"

namespace quire {

bool Scheduler::can_plan_ahead() {
  if (!options_.async_scheduling || in_flight_.size() != 1) return false;
  const Sequence* const next =
      options_.policy == SchedulingPolicy::kPriority ? waiting_.front() : nullptr;
  if (next != nullptr && !running_.empty() &&
      running_.back()->rank.priority > next->rank.priority) {
    return false;  // make_way() may want to take blocks
  }
  std::int64_t missing = 0;  // blocks of each group, at most
  for (const Sequence* sequence : running_) {
    if (sequence->beam != nullptr) return false;
    if (sequence->grammar != nullptr && sequence->num_drawing > 0) return false;
    const std::int32_t num_tokens =
        std::min(num_schedulable(*sequence), options_.max_num_batched_tokens);
    missing += kv_.blocks_to_grow(sequence->kv, sequence->num_computed + num_tokens);
  }
  for (std::size_t g = 0; g < options_.kv.groups.size(); ++g) {
    if (missing > kv_.free_blocks(g)) return false;
  }
  return true;
}

// Under priorities, a waiting sequence takes the place of running ones that matter less, the least
// urgent first. Nothing happens while a step is in flight: its blocks could not be used at once.
void Scheduler::make_way() {
  if (options_.policy != SchedulingPolicy::kPriority || in_flight_.size() > 1) return;
  const Sequence* const next = waiting_.front();
  if (next == nullptr || !can_make_way(*next)) return;
  const auto matters_less = [&] {
    return !running_.empty() && running_.back()->rank.priority > next->rank.priority;
  };
  const auto has_place = [&] {
    return running_.size() + num_waiting_for_family() <
               static_cast<std::size_t>(options_.max_num_seqs) &&
           kv_.can_grow(next->kv, 0, next->num_tokens(), promised_blocks(0));
  };
  while (matters_less() && !has_place()) preempt_last();
}

// Whether preempting all that matter less would give it room: else they go on meanwhile.
bool Scheduler::can_make_way(const Sequence& next) const {
  std::vector<std::int32_t> lacking(options_.kv.groups.size());
  for (std::size_t g = 0; g < lacking.size(); ++g) {
    lacking[g] = kv_.missing_blocks(next.kv, g, 0, next.num_tokens()) - kv_.free_blocks(g);
    for (const Sequence* sequence : running_) {
      if (sequence->rank.priority <= next.rank.priority || sequence->kv.groups.empty()) continue;
      lacking[g] -= sequence->kv.groups[g].num_held();
    }
  }
  return std::ranges::all_of(lacking, [](std::int32_t blocks) { return blocks <= 0; });
}

// Blocks for the next num_tokens of the i-th running sequence, by preempting those after it if need
// be. False when it was preempted itself, or must wait because steps in flight hold what could be
// freed.
bool Scheduler::make_room(std::size_t i, std::int32_t num_tokens) {
  Sequence& sequence = *running_[i];
  while (!kv_.try_grow(sequence.kv, sequence.num_computed + num_tokens)) {
    if (in_flight_.size() > 1) return false;
    preempt_last();
    if (running_.size() == i) return false;
  }
  return true;
}

// The running sequence of the last rank gives its blocks and its slot back and waits again. It
// keeps its tokens; what it had computed is computed again, often from the prefix cache.
void Scheduler::preempt_last() {
  Sequence& victim = *running_.back();
  QUIRE_CHECK(victim.num_drawing == 0, "request {} is preempted while a token of it is drawn",
              victim.request.id.value);
  running_.pop_back();
  end_slot(victim);
  if (victim.beam != nullptr &&
      victim.beam->offer) {  // it need not be computed again in this round
    park(victim);
  } else {
    kv_.release(victim.kv);
    victim.num_computed = 0;
    waiting_.add_preempted(&victim);
  }
  ++preemptions_;
}

// Takes the cached prefix of a waiting sequence if all its tokens fit beside those of the running
// ones, and if, by all that is known about answers, they will still fit as they grow. A sequence
// that would run alone always may.
bool Scheduler::admit(Sequence& sequence) {
  if (!sequence.needs_whole_prompt()) {
    sequence.num_computed = kv_.match(sequence.kv, sequence.tokens);
  }
  // One block more is kept for each to grow into: that lasts until the next forecast.
  const std::int32_t more = options_.kv.block_size;
  const bool fits = kv_.can_grow(sequence.kv, sequence.num_computed, sequence.num_tokens(),
                                 promised_blocks(more)) &&
                    (running_.empty() || will_fit(sequence));
  if (!fits) {
    kv_.release(sequence.kv);
    sequence.num_computed = 0;
    return false;
  }
  if (!sequence.started) sequence.cached_tokens = sequence.num_computed;
  return true;
}

// Whether it fits as it and those that are as urgent grow; the others will be preempted for them.
bool Scheduler::will_fit(const Sequence& sequence) {
  if (!options_.forecast_growth) return true;
  const std::int64_t priority = sequence.rank.priority;
  if (forecast_priority_ != priority) {
    forecast_priority_ = priority;
    forecast_.clear();
    for (const Sequence* other : running_) {
      if (other->rank.priority <= priority) forecast_.add(*other);
    }
  }
  forecast_.add(sequence);
  return forecast_.fits(options_.growth_deviations);
}

// Blocks of each group that running sequences still lack for the tokens they know, and for some
// more.
std::vector<std::int32_t> Scheduler::promised_blocks(std::int32_t more_tokens) const {
  std::vector<std::int32_t> blocks(options_.kv.groups.size());
  for (const Sequence* sequence : running_) {
    const std::int32_t num_tokens =
        std::max(sequence->num_tokens(), sequence->num_computed) + more_tokens;
    for (std::size_t g = 0; g < blocks.size(); ++g)
      blocks[g] += kv_.missing_blocks(sequence->kv, g, sequence->num_computed, num_tokens);
  }
  return blocks;
}

}  // namespace quire
