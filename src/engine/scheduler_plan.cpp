// How a step is chosen: scheduled = min(num_tokens - num_computed, budget left), for running
// sequences in order, then for waiting ones as the queue gives them. Sequences that generate take
// their one token before any prompt gets a chunk. Who has room is in scheduler_room.cpp.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"

namespace quire {
namespace {

// Prompts always get this much of the time of a step without them, however short a step is to be.
constexpr double kLeastPromptTime = 0.25;

}  // namespace

StepPlan Scheduler::plan(double now_s, const StepCosts& costs) {
  StepPlan plan = std::exchange(spare_plan_, {});
  if (plan.rows.capacity() == 0) reserve(plan);
  plan.step = next_step_++;
  begin_step(plan.step);
  planning_ = true;
  make_way();
  remove_ended_slots(plan);
  std::swap(plan.added, pending_.added);
  std::swap(plan.copies, pending_.copies);
  std::swap(plan.slot_copies, pending_.slot_copies);
  plan.block_table.resize(options_.kv.groups.size());
  plan.table_begin.resize(options_.kv.groups.size());
  for (auto& begin : plan.table_begin) begin.assign(1, 0);

  Budget budget = step_budget(costs);
  if (schedule_running(plan, budget)) schedule_waiting(plan, budget, now_s);
  // Beams that wait for the others of their round may hold what these need.
  while (plan.rows.empty() && in_flight_.size() == 1 && !waiting_.empty() && park_idle_beam(plan)) {
    schedule_waiting(plan, budget, now_s);
  }
  fork_families(plan, now_s);  // last: what is planned now is not preempted in this step
  kv_.end_plan();
  planning_ = false;
  if (plan.rows.empty()) {
    spare_steps_.push_back(std::move(in_flight_.back()));
    in_flight_.pop_back();
  }
  return plan;
}

// A new plan's memory: rows, and block tables that hold each block once. Then plans allocate
// nothing as sequences grow, unless many share their blocks.
void Scheduler::reserve(StepPlan& plan) const {
  std::int32_t num_blocks = 0;  // tables of all groups have the same length
  for (const auto& group : options_.kv.groups) num_blocks = std::max(num_blocks, group.num_blocks);
  const auto num_rows = static_cast<std::size_t>(options_.max_num_seqs);
  plan.rows.reserve(num_rows);
  plan.token_ids.reserve(static_cast<std::size_t>(options_.max_num_batched_tokens));
  plan.block_table.resize(options_.kv.groups.size());
  plan.table_begin.resize(options_.kv.groups.size());
  for (auto& table : plan.block_table) table.reserve(static_cast<std::size_t>(num_blocks));
  for (auto& begin : plan.table_begin) begin.reserve(num_rows + 1);
}

void Scheduler::begin_step(std::uint64_t number) {
  if (spare_steps_.empty()) spare_steps_.emplace_back();
  in_flight_.push_back(std::move(spare_steps_.back()));
  spare_steps_.pop_back();
  in_flight_.back().number = number;
}

void Scheduler::recycle(StepPlan&& plan) {
  plan.removed.clear();
  plan.added.clear();
  plan.copies.clear();
  plan.forks.clear();
  plan.fork_copies.clear();
  plan.slot_copies.clear();
  plan.state_loads.clear();
  plan.state_saves.clear();
  plan.rows.clear();
  plan.token_ids.clear();
  for (auto& table : plan.block_table) table.clear();
  spare_plan_ = std::move(plan);
}

// The executor forgets sequences that ended or were preempted since the last plan; their slots can
// be given anew in this step.
void Scheduler::remove_ended_slots(StepPlan& plan) {
  for (const SlotId slot : ended_slots_) {
    // One that this very plan adds is not known to the executor.
    const auto is_it = [slot](const StepPlan::AddedSlot& added) { return added.slot == slot; };
    if (std::erase_if(plan.added, is_it) == 0) plan.removed.push_back(slot);
    std::erase_if(plan.slot_copies, [slot](const auto& copy) { return copy.target == slot; });
    free_slots_.push_back(slot);
  }
  ended_slots_.clear();
}

// What the step may take; one token is kept for each sequence that generates.
Scheduler::Budget Scheduler::step_budget(const StepCosts& costs) const {
  Budget budget;
  budget.tokens = options_.max_num_batched_tokens;
  std::int32_t generating = 0, prompts = 0;
  for (const Sequence* sequence : running_) {
    const std::int32_t schedulable = num_schedulable(*sequence);
    generating += schedulable == 1;
    prompts += schedulable > 1;
  }
  budget.prompts = std::max(0, budget.tokens - generating);
  const bool limited = options_.max_step_s > 0 || options_.max_step_ratio > 0;
  if (!limited || generating == 0) return budget;  // nobody is held up
  const auto places = options_.max_num_seqs - static_cast<std::int32_t>(running_.size());
  prompts += std::min(places, static_cast<std::int32_t>(waiting_.size()));
  if (prompts == 0) return budget;
  budget.costs = &costs;
  budget.prompt_s = prompt_time(costs, generating, prompts);
  if (!costs.knows(generating)) budget.prompts = 0;  // this step will tell
  return budget;
}

// Seconds that chunks of prompts may add to a step in which `generating` sequences generate, when
// `prompts` prompts are to be computed.
double Scheduler::prompt_time(const StepCosts& costs, std::int32_t generating,
                              std::int32_t prompts) const {
  const double bare_s = costs.bare_step_s(generating);
  const double by_ratio = std::max(0.0, options_.max_step_ratio - 1) * prompts * bare_s;
  const double by_time = options_.max_step_s - bare_s;
  return std::max({by_ratio, by_time, kLeastPromptTime * bare_s});
}

// Whether the sequence goes on after the tokens that are being drawn, whatever they are. One that
// would end at a snapshot's position does not: the snapshot is found by tokens that are not known.
bool Scheduler::can_go_ahead(const Sequence& sequence) const {
  if (!options_.async_scheduling || sequence.beam != nullptr || sequence.grammar != nullptr)
    return false;
  const std::int32_t num_tokens = sequence.num_tokens() + sequence.num_drawing;  // by then
  return num_tokens - sequence.num_prompt < sequence.request.stop.max_tokens &&
         num_tokens < options_.max_model_len && kv_.could_fit(num_tokens) &&
         num_tokens < kv_.next_snapshot(sequence.num_computed);
}

// Tokens that a step may compute now: known ones, or the one that is being drawn.
std::int32_t Scheduler::num_schedulable(const Sequence& sequence) const {
  if (sequence.num_drawing == 0) return sequence.num_uncomputed();
  return can_go_ahead(sequence) ? 1 : 0;
}

// The one rule: the number of tokens that the sequence gets in this step, taken off the budget. Of
// a model with recurrent state a row ends where a snapshot of it is kept.
std::int32_t Scheduler::take_tokens(const Sequence& sequence, Budget& budget) const {
  const std::int32_t to_snapshot = kv_.next_snapshot(sequence.num_computed) - sequence.num_computed;
  const std::int32_t schedulable = num_schedulable(sequence);
  std::int32_t num_tokens = std::min({schedulable, budget.tokens, to_snapshot});
  if (schedulable > 1) {
    const std::int32_t threshold = options_.long_prefill_token_threshold;
    if (threshold > 0) num_tokens = std::min(num_tokens, threshold);
    num_tokens = std::min(num_tokens, budget.prompts);
    if (budget.costs != nullptr && num_tokens > 0)
      num_tokens = within_time(sequence, num_tokens, budget);
    budget.prompts -= num_tokens;
  }
  budget.tokens -= num_tokens;
  budget.prompts = std::min(budget.prompts, budget.tokens);
  return num_tokens;
}

// What of num_tokens of a prompt fits into the time that is left, at least one; when that is not
// all, no other prompt gets any.
std::int32_t Scheduler::within_time(const Sequence& sequence, std::int32_t num_tokens,
                                    Budget& budget) const {
  const std::int32_t start = sequence.num_computed;
  const std::int32_t fitting = prompt_tokens_within(*budget.costs, budget.prompt_s, start);
  budget.prompt_s -= budget.costs->prompt_s(start, num_tokens);
  if (fitting > num_tokens) return num_tokens;
  budget.prompts = std::max(1, fitting);
  return budget.prompts;
}

// False when blocks ran out: then nothing new may start in this step.
bool Scheduler::schedule_running(StepPlan& plan, Budget& budget) {
  const std::int64_t preemptions_before = preemptions_;
  for (std::size_t i = 0; i < running_.size() && budget.tokens > 0; ++i) {
    const std::int32_t num_tokens = take_tokens(*running_[i], budget);
    if (num_tokens == 0) continue;  // its next token is still being computed, or others come first
    if (!make_room(i, num_tokens)) return false;
    add_row(plan, *running_[i], num_tokens);
  }
  return preemptions_ == preemptions_before;
}

void Scheduler::schedule_waiting(StepPlan& plan, Budget& budget, double now_s) {
  const auto max_num_seqs = static_cast<std::size_t>(options_.max_num_seqs);
  forecast_priority_.reset();
  while (running_.size() + num_waiting_for_family() < max_num_seqs && budget.prompts > 0) {
    Sequence* const sequence = waiting_.front();
    if (sequence == nullptr || !admit(*sequence)) return;  // nobody overtakes the next one
    waiting_.pop_front();
    begin_block(plan, *sequence);
    give_slot(plan, *sequence);
    run(*sequence, now_s);
    const std::int32_t num_tokens = take_tokens(*sequence, budget);
    QUIRE_CHECK(kv_.try_grow(sequence->kv, sequence->num_computed + num_tokens));
    add_row(plan, *sequence, num_tokens);
  }
}

// After a prefix hit: what a cached block shares with the next one is copied.
void Scheduler::begin_block(StepPlan& plan, Sequence& sequence) {
  if (sequence.needs_whole_prompt()) return;
  std::vector<KvCacheManager::Copy> copies;
  sequence.num_computed +=
      kv_.match_partial(sequence.kv, sequence.tokens, sequence.num_computed, &copies);
  if (!sequence.started) sequence.cached_tokens = sequence.num_computed;
  for (const auto& copy : copies) {
    plan.copies.push_back({copy.group, copy.source.value, copy.target.value, copy.tokens});
  }
}

// What the sequence had drawn before it was preempted goes with it.
void Scheduler::give_slot(StepPlan& plan, Sequence& sequence) {
  QUIRE_CHECK(!free_slots_.empty(), "more sequences run than max_num_seqs");
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  plan.added.push_back({sequence.slot,
                        sequence.request.sampling,
                        sequence.request.prompt,
                        {sequence.tokens.begin() + sequence.num_prompt, sequence.tokens.end()}});
}

void Scheduler::add_row(StepPlan& plan, Sequence& sequence, std::int32_t num_tokens) {
  StepPlan::Row row;
  row.slot = sequence.slot;
  row.start_pos = sequence.num_computed;
  row.num_tokens = num_tokens;
  const std::int32_t end_pos = row.start_pos + num_tokens;
  const std::int32_t known = std::min(end_pos, sequence.num_tokens());  // of [0, end_pos)
  row.sample = end_pos == sequence.num_tokens() + sequence.num_drawing && !sequence.scoring_only();
  row.logits_begin = row.sample ? num_tokens - 1 : num_tokens;
  const std::int32_t prompt_logprobs_end = std::min(end_pos, sequence.num_prompt_logprobs_wanted());
  if (prompt_logprobs_end > sequence.num_prompt_logprobs_planned) {
    row.prompt_logprobs = true;
    row.logits_begin = std::max(0, sequence.num_prompt_logprobs_planned - row.start_pos);
    sequence.num_prompt_logprobs_planned = prompt_logprobs_end;
  }

  if (known > row.start_pos) {
    plan.token_ids.insert(plan.token_ids.end(), sequence.tokens.begin() + row.start_pos,
                          sequence.tokens.begin() + known);
  } else {
    plan.token_ids.push_back(kTokenFromPreviousStep);
  }
  for (std::size_t g = 0; g < plan.block_table.size(); ++g) {
    auto& table = plan.block_table[g];
    for (const BlockId block : sequence.kv.groups[g].blocks) table.push_back(block.value);
    plan.table_begin[g].push_back(static_cast<std::int32_t>(table.size()));
  }
  plan.rows.push_back(row);
  in_flight_.back().sequences.push_back(sequence.request.id);
  sequence.num_computed = end_pos;
  sequence.num_drawing += row.sample;
  kv_.commit(sequence.kv, sequence.tokens, known);  // later rows of this very step can share
  const BlockId from = std::exchange(sequence.kv.snapshot, kNoBlock);
  if (from != kNoBlock) plan.state_loads.push_back({sequence.slot, from.value});
  const BlockId to = kv_.take_snapshot(sequence.kv, sequence.tokens, end_pos);
  if (to != kNoBlock) plan.state_saves.push_back({sequence.slot, to.value});
}

}  // namespace quire
