// What a step's result does: tokens are appended, finish rules decided on token ids, blocks given
// back.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"

namespace quire {

std::vector<SequenceUpdate> Scheduler::apply(const StepPlan& plan, const StepResult& result,
                                             double now_s) {
  std::vector<SequenceUpdate> updates;
  updates.reserve(plan.rows.size());
  apply(plan, result, now_s, updates);
  return updates;
}

void Scheduler::apply(const StepPlan& plan, const StepResult& result, double /*now_s*/,
                      std::vector<SequenceUpdate>& updates) {
  updates.clear();
  if (plan.rows.empty()) return;
  QUIRE_CHECK(
      !in_flight_.empty() && in_flight_.front().number == plan.step && result.step == plan.step &&
          result.rows.size() == plan.rows.size() && result.forks.size() == plan.forks.size(),
      "step {} is applied out of order, or with the result of step {}", plan.step, result.step);
  Step step = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());

  for (std::size_t i = 0; i < plan.rows.size(); ++i) apply_row(plan, result, step, i, updates);
  for (SequenceKv& kv : step.to_release) kv_.release(kv);
  step.sequences.clear();
  step.forks.clear();
  step.to_release.clear();
  spare_steps_.push_back(std::move(step));
}

void Scheduler::end(const SequenceUpdate& update) {
  remove(update.id, update.finish == FinishReason::kLength);
  ++finished_;
}

Sequence* Scheduler::find(RequestId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

// The row's own sequence, then the choices that went on from it. Who has ended meanwhile gets no
// surplus token.
void Scheduler::apply_row(const StepPlan& plan, const StepResult& result, const Step& step,
                          std::size_t index, std::vector<SequenceUpdate>& updates) {
  const StepPlan::Row& row = plan.rows[index];
  const std::int32_t end_pos = row.start_pos + row.num_tokens;
  Sequence* const first = find(step.sequences[index]);
  const auto forks = std::ranges::equal_range(plan.forks, static_cast<std::int32_t>(index), {},
                                              &StepPlan::Fork::row);
  Sequence* keeper = first;  // of the prompt's log-probabilities
  for (auto fork = forks.begin(); fork != forks.end() && keeper == nullptr; ++fork) {
    keeper = find(step.forks[static_cast<std::size_t>(fork - plan.forks.begin())]);
  }
  if (keeper == nullptr) return;
  if (row.prompt_logprobs) take_prompt_logprobs(*keeper, row, result.rows[index]);
  if (first != nullptr) {
    first->num_drawing -= row.sample;
    // Of a row that was planned with a token that was not known: now it is.
    if (options_.async_scheduling) kv_.commit(first->kv, first->tokens, end_pos);
    // A step planned meanwhile goes on where this row ends: it reaches no farther back.
    kv_.free_unreachable(first->kv, end_pos);
    if (first->beam != nullptr) {
      if (row.sample) take_beam_offer(*first, result.rows[index].logprobs, updates);
      return;
    }
    const bool scored = first->scoring_only() && end_pos == first->num_prompt;
    if (row.sample || scored) updates.push_back(make_update(*first, row, result.rows[index]));
    if ((row.sample || scored) && updates.back().finish) end(updates.back());
  }
  for (auto fork = forks.begin(); fork != forks.end(); ++fork) {
    const auto f = static_cast<std::size_t>(fork - plan.forks.begin());
    Sequence* const other = find(step.forks[f]);
    if (other == nullptr) continue;
    --other->num_drawing;
    kv_.free_unreachable(other->kv, end_pos);
    updates.push_back(make_update(*other, row, result.forks[f]));
    if (updates.back().finish) end(updates.back());
  }
}

// Chunks come in the order of positions, each position once: also when a preempted prompt is
// computed again.
void Scheduler::take_prompt_logprobs(Sequence& sequence, const StepPlan::Row& row,
                                     const StepResult::Row& result) {
  auto& collected = *sequence.prompt_logprobs;
  const std::int32_t begin = row.start_pos + row.logits_begin;
  const std::int32_t end =
      std::min(row.start_pos + row.num_tokens, sequence.num_prompt_logprobs_wanted());
  QUIRE_CHECK(begin == static_cast<std::int32_t>(collected.size()) &&
                  static_cast<std::int32_t>(result.prompt_logprobs.size()) >= end - begin,
              "request {}: prompt log-probabilities {}..{} wanted after {}, {} came",
              sequence.request.id.value, begin, end, collected.size(),
              result.prompt_logprobs.size());
  collected.insert(collected.end(), result.prompt_logprobs.begin(),
                   result.prompt_logprobs.begin() + (end - begin));
}

// Appends the row's token, if one was drawn, and says what the output thread must know.
SequenceUpdate Scheduler::make_update(Sequence& sequence, const StepPlan::Row& row,
                                      const StepResult::Row& result) const {
  SequenceUpdate update;
  update.id = sequence.request.id;
  if (row.sample) {
    sequence.tokens.push_back(result.token);
    if (sequence.grammar != nullptr) sequence.grammar->accept(result.token);
    update.tokens.push_back(result.token);
    if (result.has_logprobs) update.logprobs.push_back(result.logprobs);
  }
  update.first_token = sequence.num_generated() == 1;
  if (sequence.request.sampling->prompt_logprobs >= 0 && sequence.num_generated() <= 1) {
    update.prompt_logprobs = sequence.prompt_logprobs.use_count() == 1
                                 ? std::move(*sequence.prompt_logprobs)
                                 : *sequence.prompt_logprobs;
    update.has_prompt_logprobs = true;
    sequence.prompt_logprobs.reset();
  }
  update.embedding = result.embedding;
  update.prompt_tokens = sequence.num_prompt;
  update.completion_tokens = sequence.num_generated();
  update.cached_tokens = sequence.cached_tokens;
  update.scheduled_s = sequence.scheduled_s;
  update.forked = sequence.forked;
  decide_finish(sequence, update);
  return update;
}

// A grammar that has ended or failed; end token, then the request's stop tokens, then repetition
// (none before min_tokens), then lengths. A grammar that allows nothing more ends the text whatever
// min_tokens and ignore_eos say.
void Scheduler::decide_finish(const Sequence& sequence, SequenceUpdate& update) const {
  const StopRules& stop = sequence.request.stop;
  const SequenceGrammar* const grammar = sequence.grammar.get();
  if (grammar != nullptr && grammar->error()) {
    update.finish = FinishReason::kError;
    update.error = grammar->error();
    update.tokens.clear();  // drawn without a mask
    update.logprobs.clear();
    return;
  }
  const bool may_stop =
      sequence.num_generated() >= std::max(1, sequence.request.sampling->min_tokens);
  const TokenId last = sequence.tokens.back();
  const bool is_eos = has_id(stop.eos_ids, last);
  if (grammar != nullptr && grammar->ended()) {
    update.finish = FinishReason::kStop;
    if (!is_eos && has_id(stop.stop_token_ids, last)) update.stop_token = last;
  } else if (may_stop && !stop.ignore_eos && is_eos) {
    update.finish = FinishReason::kStop;
  } else if (may_stop && has_id(stop.stop_token_ids, last)) {
    update.finish = FinishReason::kStop;
    update.stop_token = last;
  } else if (grammar != nullptr && grammar->complete_without_end()) {
    update.finish = FinishReason::kStop;
    update.text_ends_with_token = true;
  } else if (may_stop && stop.repetition.max_pattern_size > 0 &&
             repeats(
                 std::span(sequence.tokens).subspan(static_cast<std::size_t>(sequence.num_prompt)),
                 stop.repetition)) {
    update.finish = FinishReason::kRepetition;
  } else if (sequence.num_generated() >= stop.max_tokens ||
             sequence.num_tokens() >= options_.max_model_len ||
             !kv_.could_fit(sequence.num_tokens())) {
    update.finish = FinishReason::kLength;
  }
}

}  // namespace quire
