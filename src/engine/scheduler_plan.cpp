// How a step is chosen: scheduled = min(num_tokens - num_computed, budget left), for running
// sequences in order, then for waiting ones, first come, first served.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"

namespace quire {

StepPlan Scheduler::plan(double now_s, const StepCosts& /*costs*/) {
  StepPlan plan;
  plan.step = next_step_++;
  remove_ended_slots(plan);
  plan.added = std::exchange(pending_.added, {});
  plan.copies = std::exchange(pending_.copies, {});
  plan.slot_copies = std::exchange(pending_.slot_copies, {});
  plan.block_table.resize(options_.kv.groups.size());
  plan.table_begin.assign(options_.kv.groups.size(), {0});

  in_flight_.push_back({plan.step, {}, {}, {}});
  std::int32_t budget = options_.max_num_batched_tokens;
  if (schedule_running(plan, budget)) schedule_waiting(plan, budget, now_s);
  // Beams that wait for the others of their round may hold what these need.
  while (plan.rows.empty() && in_flight_.size() == 1 && !waiting_.empty() && park_idle_beam(plan)) {
    schedule_waiting(plan, budget, now_s);
  }
  fork_families(plan, now_s);  // last: what is planned now is not preempted in this step
  kv_.publish_snapshots();
  if (plan.rows.empty()) in_flight_.pop_back();
  return plan;
}

void Scheduler::remove_ended_slots(StepPlan& plan) {
  plan.removed.insert(plan.removed.end(), ended_slots_.begin(), ended_slots_.end());
  free_slots_.insert(free_slots_.end(), ended_slots_.begin(), ended_slots_.end());
  ended_slots_.clear();
}

// The one rule; of a model with recurrent state a row ends where a snapshot of it is kept.
std::int32_t Scheduler::row_tokens(const Sequence& sequence, std::int32_t budget) const {
  const std::int32_t to_snapshot = kv_.next_snapshot(sequence.num_computed) - sequence.num_computed;
  return std::min({sequence.num_uncomputed(), budget, to_snapshot});
}

// False when blocks ran out: then nothing new may start in this step.
bool Scheduler::schedule_running(StepPlan& plan, std::int32_t& budget) {
  const std::int64_t preemptions_before = preemptions_;
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = *running_[i];
    const std::int32_t num_tokens = row_tokens(sequence, budget);
    if (num_tokens == 0) continue;  // its next token is still being computed
    if (!make_room(i, num_tokens)) return false;
    add_row(plan, sequence, num_tokens);
    budget -= num_tokens;
  }
  return preemptions_ == preemptions_before;
}

void Scheduler::schedule_waiting(StepPlan& plan, std::int32_t& budget, double now_s) {
  const auto max_num_seqs = static_cast<std::size_t>(options_.max_num_seqs);
  std::size_t next = 0;      // what stands before it cannot start yet
  std::size_t reserved = 0;  // for those who wait for their family's prompt
  while (next < waiting_.size() && running_.size() + reserved < max_num_seqs && budget > 0) {
    Sequence& sequence = *waiting_[next];
    const bool waits = waits_for_family(sequence);
    if (waits || (sequence.slot == kNoSlot && free_slots_.empty())) {
      ++next;
      reserved += waits ? 1 : 0;
      continue;
    }
    if (!admit(sequence)) return;  // nobody overtakes the one that waits longest
    if (sequence.slot == kNoSlot) {
      give_slot(plan, sequence);
      if (sequence.num_generated() == 0) sequence.scheduled_s = now_s;
    }
    running_.push_back(std::move(waiting_[next]));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(next));
    const std::int32_t num_tokens = row_tokens(sequence, budget);
    QUIRE_CHECK(kv_.try_grow(sequence.kv, sequence.num_computed + num_tokens));
    add_row(plan, sequence, num_tokens);
    budget -= num_tokens;
  }
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

// The sequence that was admitted last gives its blocks back and goes to the front of the queue. It
// keeps its tokens and its executor slot; what it had computed is computed again, often from the
// prefix cache.
void Scheduler::preempt_last() {
  Sequence& victim = *running_.back();
  if (victim.beam != nullptr &&
      victim.beam->offer) {  // it need not be computed again in this round
    end_slot(victim);
    park(std::move(running_.back()));
  } else {
    kv_.release(victim.kv);
    victim.num_computed = 0;
    waiting_.push_front(std::move(running_.back()));
  }
  running_.pop_back();
  ++preemptions_;
}

// Takes the cached prefix of a waiting sequence if all its tokens fit beside what the running ones
// will need soon.
bool Scheduler::admit(Sequence& sequence) {
  if (!sequence.needs_whole_prompt()) {
    sequence.num_computed = kv_.match(sequence.kv, sequence.tokens);
  }
  if (!kv_.can_grow(sequence.kv, sequence.num_computed, sequence.num_tokens(), promised_blocks())) {
    kv_.release(sequence.kv);
    sequence.num_computed = 0;
    return false;
  }
  const bool starts = sequence.slot == kNoSlot && sequence.num_generated() == 0;
  if (starts) sequence.cached_tokens = sequence.num_computed;
  return true;
}

// Blocks of each group that running sequences still lack for the tokens they know, and one more
// each to grow into: with these kept free at admission, preemption is rare.
std::vector<std::int32_t> Scheduler::promised_blocks() const {
  std::vector<std::int32_t> blocks(options_.kv.groups.size());
  for (const auto& sequence : running_) {
    const std::int32_t num_tokens = sequence->num_tokens() + options_.kv.block_size;
    for (std::size_t g = 0; g < blocks.size(); ++g)
      blocks[g] += kv_.missing_blocks(sequence->kv, g, sequence->num_computed, num_tokens);
  }
  return blocks;
}

void Scheduler::give_slot(StepPlan& plan, Sequence& sequence) {
  QUIRE_CHECK(!free_slots_.empty(), "more sequences have started than max_num_seqs");
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  plan.added.push_back({sequence.slot, sequence.request.sampling, sequence.request.prompt});
}

void Scheduler::add_row(StepPlan& plan, Sequence& sequence, std::int32_t num_tokens) {
  StepPlan::Row row;
  row.slot = sequence.slot;
  row.start_pos = sequence.num_computed;
  row.num_tokens = num_tokens;
  const std::int32_t end_pos = row.start_pos + num_tokens;
  row.sample = end_pos == sequence.num_tokens() && !sequence.scoring_only();
  row.logits_begin = row.sample ? num_tokens - 1 : num_tokens;
  const std::int32_t prompt_logprobs_end = std::min(end_pos, sequence.num_prompt_logprobs_wanted());
  if (prompt_logprobs_end > sequence.num_prompt_logprobs_planned) {
    row.prompt_logprobs = true;
    row.logits_begin = std::max(0, sequence.num_prompt_logprobs_planned - row.start_pos);
    sequence.num_prompt_logprobs_planned = prompt_logprobs_end;
  }

  const auto first = sequence.tokens.begin() + row.start_pos;
  plan.token_ids.insert(plan.token_ids.end(), first, first + num_tokens);
  for (std::size_t g = 0; g < plan.block_table.size(); ++g) {
    auto& table = plan.block_table[g];
    for (const BlockId block : sequence.kv.groups[g].blocks) table.push_back(block.value);
    plan.table_begin[g].push_back(static_cast<std::int32_t>(table.size()));
  }
  plan.rows.push_back(row);
  in_flight_.back().sequences.push_back(sequence.request.id);
  sequence.num_computed = end_pos;
  kv_.commit(sequence.kv, sequence.tokens, end_pos);  // later rows of this very step can share
  const BlockId from = std::exchange(sequence.kv.snapshot, kNoBlock);
  if (from != kNoBlock) plan.state_loads.push_back({sequence.slot, from.value});
  const BlockId to = kv_.take_snapshot(sequence.kv, sequence.tokens, end_pos);
  if (to != kNoBlock) plan.state_saves.push_back({sequence.slot, to.value});
}

}  // namespace quire
