// Beam search on top of forks: rounds of all beams of a request, and which sequence holds which
// beam. Which beams go on is decided in beam_search.cpp.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"

namespace quire {

// The first host begins with the prompt.
void Scheduler::add_beam(Sequence& sequence) {
  const Request& request = sequence.request;
  auto& group = beam_groups_[*request.family];
  if (group == nullptr) {
    group = std::make_unique<BeamGroup>();
    group->params = *request.beam;
  }
  sequence.beam = std::make_unique<BeamHost>();
  sequence.beam->group = group.get();
  group->hosts.push_back(&sequence);
  if (group->active.empty()) {
    group->active.push_back(&sequence);
    waiting_.add(&sequence);
  } else {
    group->parked.push_back(&sequence);
  }
}

// The search goes on as long as somebody waits for one of its choices.
bool Scheduler::abandon_beam(Sequence& sequence) {
  if (std::exchange(sequence.beam->abandoned, true)) return false;
  BeamGroup& group = *sequence.beam->group;
  const auto gone = [](const Sequence* host) { return host->beam->abandoned; };
  if (std::ranges::all_of(group.hosts, gone)) remove_beams(group);
  return true;
}

void Scheduler::remove_beams(BeamGroup& group) {
  const RequestId family = *group.hosts.front()->request.family;
  for (Sequence* const host : group.hosts) {
    deadlines_.remove(host->request.id, host->request.deadline_s);
    queue_deadlines_.remove(host->request.id, host->request.queue_deadline_s);
    release(std::move(host->kv));
    end_slot(*host);
    if (std::erase(running_, host) == 0) waiting_.remove(host);
  }
  const std::vector<Sequence*> hosts = std::move(group.hosts);
  beam_groups_.erase(family);
  for (const Sequence* host : hosts) {
    num_grammars_ -= host->grammar != nullptr;
    by_id_.erase(RequestId(host->request.id));
  }
}

// A slot that the executor does not know yet goes back at once.
void Scheduler::end_slot(Sequence& sequence) {
  const SlotId slot = std::exchange(sequence.slot, kNoSlot);
  if (slot == kNoSlot) return;
  const auto is_it = [slot](const StepPlan::AddedSlot& added) { return added.slot == slot; };
  const bool unknown = std::erase_if(pending_.added, is_it) > 0;
  std::erase_if(pending_.slot_copies, [slot](const auto& copy) { return copy.target == slot; });
  (unknown ? free_slots_ : ended_slots_).push_back(slot);
}

// Takes blocks and computed state away; the host keeps its beam's tokens.
void Scheduler::park(Sequence& host) {
  release(std::exchange(host.kv, {}));
  host.kv.salt = host.request.cache_salt;
  host.num_computed = 0;
  host.beam->group->parked.push_back(&host);
}

// Of the sequences that run, the last beam that waits for the others of its round. False: none.
bool Scheduler::park_idle_beam(StepPlan& plan) {
  for (std::size_t i = running_.size(); i-- > 0;) {
    if (running_[i]->beam == nullptr || !running_[i]->beam->offer) continue;
    end_slot(*running_[i]);
    park(*running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    remove_ended_slots(plan);
    return true;
  }
  return false;
}

void Scheduler::take_beam_offer(Sequence& sequence, const TokenLogprobs& offer,
                                std::vector<SequenceUpdate>& updates) {
  sequence.beam->offer = offer;
  BeamGroup& group = *sequence.beam->group;
  const auto offered = [](const Sequence* host) { return host->beam->offer.has_value(); };
  if (std::ranges::all_of(group.active, offered)) end_round(group, updates);
}

void Scheduler::end_round(BeamGroup& group, std::vector<SequenceUpdate>& updates) {
  std::vector<BeamOffer> offers;
  offers.reserve(group.active.size());
  for (const Sequence* host : group.active)
    offers.push_back({host->beam->logprob_sum, &*host->beam->offer});
  const Sequence& any = *group.active.front();
  const StopRules& stop = any.request.stop;
  const std::int32_t length = any.num_tokens() + 1, generated = any.num_generated() + 1;
  const auto ends = [&](TokenId id) {
    const bool end =
        (!stop.ignore_eos && has_id(stop.eos_ids, id)) || has_id(stop.stop_token_ids, id);
    if (!end) return TokenEnds::kNo;
    return generated < any.request.sampling->min_tokens ? TokenEnds::kBanned : TokenEnds::kYes;
  };
  const BeamRound round = next_beams(offers, group.params, ends);
  for (const BeamStep& step : round.ended) complete_beam(group, step, FinishReason::kStop);
  const bool at_limit =
      generated >= stop.max_tokens || length >= options_.max_model_len || !kv_.could_fit(length);
  if (at_limit) {
    for (const BeamStep& step : round.beams) complete_beam(group, step, FinishReason::kLength);
  }
  keep_best(group);
  std::vector<double> scores;
  scores.reserve(group.complete.size());
  for (const auto& hypothesis : group.complete) scores.push_back(hypothesis.score);
  const std::int32_t longest = std::min(any.num_prompt + stop.max_tokens, options_.max_model_len);
  if (at_limit || round.beams.empty() ||
      beams_done(scores, round.beams.front().logprob_sum, length, longest, group.params)) {
    finish_beams(group, updates);
  } else {
    continue_beams(group, round.beams);
  }
}

void Scheduler::complete_beam(BeamGroup& group, const BeamStep& step, FinishReason reason) const {
  const Sequence& parent = *group.active[step.parent];
  BeamGroup::Hypothesis& made = group.complete.emplace_back();
  made.tokens.assign(parent.tokens.begin() + parent.num_prompt, parent.tokens.end());
  made.tokens.push_back(step.token.token);
  made.logprobs = parent.beam->logprobs;
  made.logprobs.push_back(step.token);
  made.reason = reason;
  const StopRules& stop = parent.request.stop;
  const bool is_eos = !stop.ignore_eos && has_id(stop.eos_ids, step.token.token);
  if (reason == FinishReason::kStop && !is_eos) made.stop_token = step.token.token;
  const std::int32_t end_token = reason == FinishReason::kStop ? 1 : 0;
  made.score = beam_score(step.logprob_sum, parent.num_tokens() + 1 - end_token,
                          group.params.length_penalty);
}

void Scheduler::keep_best(BeamGroup& group) {
  std::ranges::stable_sort(group.complete, std::greater{}, &BeamGroup::Hypothesis::score);
  const auto width = static_cast<std::size_t>(group.params.width);
  if (group.complete.size() > width) group.complete.resize(width);
}

// The best hypothesis becomes the first choice, and so on.
void Scheduler::finish_beams(BeamGroup& group, std::vector<SequenceUpdate>& updates) {
  const Sequence& first = *group.hosts.front();
  for (std::size_t i = 0; i < group.hosts.size(); ++i) {
    const Sequence& host = *group.hosts[i];
    if (host.beam->abandoned) continue;
    SequenceUpdate& update = updates.emplace_back();
    update.id = host.request.id;
    update.finish = FinishReason::kLength;  // of a choice that no hypothesis is left for
    if (i < group.complete.size()) {
      BeamGroup::Hypothesis& best = group.complete[i];
      update.tokens = std::move(best.tokens);
      if (group.params.logprobs >= 0) update.logprobs = std::move(best.logprobs);
      update.finish = best.reason;
      update.stop_token = best.stop_token;
    }
    if (first.prompt_logprobs != nullptr) {
      update.prompt_logprobs = *first.prompt_logprobs;
      update.has_prompt_logprobs = true;
    }
    update.prompt_tokens = host.num_prompt;
    update.completion_tokens = static_cast<std::int32_t>(update.tokens.size());
    update.cached_tokens = first.cached_tokens;
    update.first_token = !update.tokens.empty();
    update.forked = i > 0;
    update.scheduled_s = first.scheduled_s;
    ++finished_;
  }
  remove_beams(group);
}

// Hands the beams out to the hosts: the first successor of a beam stays where it is, others go to
// hosts without a beam.
void Scheduler::continue_beams(BeamGroup& group, const std::vector<BeamStep>& steps) {
  const std::vector<Sequence*> parents = std::exchange(group.active, {});
  std::vector<bool> goes_on(parents.size());
  for (const BeamStep& step : steps) goes_on[step.parent] = true;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (goes_on[i]) continue;
    parents[i]->beam->offer.reset();
    if (std::erase(running_, parents[i]) > 0) park(*parents[i]);  // else parked already
  }
  std::vector<bool> placed(parents.size());
  for (const BeamStep& step : steps) {
    Sequence* const parent = parents[step.parent];
    const bool first = !placed[step.parent];
    placed[step.parent] = true;
    group.active.push_back(first ? parent : &start_beam(group, *parent));
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Sequence& host = *group.active[i];
    host.tokens.push_back(steps[i].token.token);
    host.beam->logprobs.push_back(steps[i].token);
    host.beam->logprob_sum = steps[i].logprob_sum;
    host.beam->offer.reset();
  }
  unpark_beams(group);
}

// A host that had none gets the parent's beam: its blocks and state, or its tokens to be computed
// again where there is no room for it to run.
Sequence& Scheduler::start_beam(BeamGroup& group, const Sequence& parent) {
  std::size_t place = group.parked.size();  // from the back: the last ones still have their slots
  while (place > 0 &&
         (group.parked[place - 1]->beam->offer || group.parked[place - 1]->beam->chosen))
    --place;
  QUIRE_CHECK(place > 0, "more beams than hosts");
  Sequence& host = *group.parked[--place];
  host.tokens = parent.tokens;
  host.beam->logprobs = parent.beam->logprobs;
  host.beam->chosen = true;
  host.cached_tokens = parent.cached_tokens;
  host.scheduled_s = parent.scheduled_s;
  host.num_prompt_logprobs_planned = host.num_prompt_logprobs_wanted();
  if (fork_beam(parent, host)) {
    run(host, host.scheduled_s);
    group.parked.erase(group.parked.begin() + static_cast<std::ptrdiff_t>(place));
  }
  return host;
}

bool Scheduler::fork_beam(const Sequence& parent, Sequence& host) {
  if (parent.num_computed == 0 || (host.slot == kNoSlot && free_slots_.empty()) ||
      running_.size() >= static_cast<std::size_t>(options_.max_num_seqs)) {
    return false;
  }
  std::vector<std::int32_t> headroom = promised_blocks(options_.kv.block_size);
  for (std::int32_t& blocks : headroom) ++blocks;
  std::vector<KvCacheManager::Copy> copies;
  if (!kv_.can_fork(parent.num_computed, headroom) ||
      !kv_.fork(parent.kv, host.kv, parent.num_computed, &copies)) {
    return false;
  }
  if (host.slot == kNoSlot) give_slot(pending_, host);
  for (const auto& copy : copies) {
    pending_.copies.push_back({copy.group, copy.source.value, copy.target.value, copy.tokens});
  }
  pending_.slot_copies.push_back({parent.slot, host.slot});
  host.num_computed = parent.num_computed;
  return true;
}

// Parked hosts with a beam are computed again, before anything new; those without let their slots
// go.
void Scheduler::unpark_beams(BeamGroup& group) {
  std::erase_if(group.parked, [&](Sequence* host) {
    end_slot(*host);
    const bool has_beam = std::ranges::find(group.active, host) != group.active.end();
    if (has_beam) waiting_.add_preempted(host);
    return has_beam;
  });
  for (Sequence* const host : group.active) host->beam->chosen = false;
}

}  // namespace quire
