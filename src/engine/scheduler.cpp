// The scheduler's queues: what comes in, what goes out, and what must hold in between. How a step
// is chosen is in scheduler_plan.cpp, what its result does in scheduler_apply.cpp.
#include "engine/scheduler.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace quire {

namespace {

KvCacheOptions kv_options(const SchedulerOptions& options) {
  KvCacheOptions kv = options.kv;
  kv.max_step_tokens = options.max_num_batched_tokens;
  return kv;
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options)
    : options_(std::move(options)),
      kv_(kv_options(options_)),
      forecast_(&kv_, &lengths_, options_.kv.block_size, options_.kv.groups.size(),
                options_.max_model_len) {
  QUIRE_CHECK(options_.max_num_batched_tokens > 0 && options_.max_num_seqs > 0);
  for (std::int32_t i = options_.max_num_seqs; i-- > 0;) free_slots_.push_back(SlotId(i));
}

void Scheduler::add(Request request, double /*now_s*/) {
  QUIRE_CHECK(
      !request.prompt->empty() && could_fit(static_cast<std::int32_t>(request.prompt->size())),
      "request {} has a prompt of {} tokens", request.id.value, request.prompt->size());
  const RequestId id = request.id;
  const auto [entry, is_new] = by_id_.emplace(id, std::make_unique<Sequence>(std::move(request)));
  QUIRE_CHECK(is_new, "request id {} is used twice", id.value);
  Sequence& sequence = *entry->second;
  const bool by_priority = options_.policy == SchedulingPolicy::kPriority;
  sequence.rank = {by_priority ? sequence.request.priority : 0, next_number_++};
  num_grammars_ += sequence.grammar != nullptr;
  deadlines_.add(id, sequence.request.deadline_s);
  queue_deadlines_.add(id, sequence.request.queue_deadline_s);
  if (sequence.request.beam && !sequence.scoring_only()) return add_beam(sequence);
  if (!add_to_family(sequence)) waiting_.add(&sequence);
}

std::vector<ExpiredRequest> Scheduler::expire(double now_s) {
  std::vector<ExpiredRequest> expired;
  RequestId id;
  while (true) {
    const bool in_queue = !deadlines_.take_passed(now_s, &id);
    if (in_queue && !queue_deadlines_.take_passed(now_s, &id)) break;
    const Sequence* const sequence = find(id);
    if (sequence == nullptr) continue;  // went with the other beams of its request
    const double waited_s = now_s - sequence->request.arrival_s;
    expired.push_back({id, in_queue, waited_s, sequence->num_generated()});
    abort(id);
  }
  return expired;
}

bool Scheduler::abort(RequestId id) {
  const bool known = remove(id, true);
  aborted_ += known;
  return known;
}

bool Scheduler::finish(RequestId id) {
  const bool known = remove(id, false);
  finished_ += known;
  return known;
}

// Takes a sequence out, wherever it is. cut: its answer would have been longer.
bool Scheduler::remove(RequestId id, bool cut) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  deadlines_.remove(id, found->second->request.deadline_s);
  queue_deadlines_.remove(id, found->second->request.queue_deadline_s);
  if (found->second->beam != nullptr) return abandon_beam(*found->second);
  const std::unique_ptr<Sequence> sequence = std::move(found->second);
  by_id_.erase(found);
  num_grammars_ -= sequence->grammar != nullptr;
  release(std::move(sequence->kv));
  end_slot(*sequence);
  if (sequence->num_generated() > 0) lengths_.record(sequence->num_generated(), cut);
  if (std::erase(running_, sequence.get()) == 0) waiting_.remove(sequence.get());
  remove_from_family(*sequence);
  return true;
}

// It stands among the running ones from now on.
void Scheduler::run(Sequence& sequence, double now_s) {
  if (!sequence.started) {
    sequence.started = true;
    ++started_;
    reserve(sequence);
    sequence.rank.number = next_number_++;
    if (sequence.scheduled_s == 0) sequence.scheduled_s = now_s;
    queue_deadlines_.remove(sequence.request.id, sequence.request.queue_deadline_s);
  }
  const auto by_rank = [](const Sequence* a, const Sequence* b) { return a->rank < b->rank; };
  running_.insert(std::ranges::upper_bound(running_, &sequence, by_rank), &sequence);
  ++admissions_;
}

// Memory for all that it will hold, so that it allocates nothing as it grows; of very long answers,
// a part.
void Scheduler::reserve(Sequence& sequence) {
  constexpr std::int32_t kMostTokens = 16384;
  const std::int64_t longest = std::int64_t{sequence.num_prompt} + sequence.request.stop.max_tokens;
  const auto num_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(
      {longest, options_.max_model_len, sequence.num_tokens() + kMostTokens}));
  sequence.tokens.reserve(static_cast<std::size_t>(num_tokens));
  kv_.reserve(sequence.kv, num_tokens);
}

// Gives blocks back: at once, or when the last planned step that may name them has been applied.
// The step that is being planned names none that are given back meanwhile.
void Scheduler::release(SequenceKv&& kv) {
  const std::size_t num_planned = in_flight_.size() - (planning_ ? 1 : 0);
  if (num_planned == 0) {
    kv_.release(kv);
  } else {
    in_flight_[num_planned - 1].to_release.push_back(std::move(kv));
  }
}

std::vector<std::shared_ptr<SequenceGrammar>> Scheduler::grammars(const StepPlan& plan) const {
  std::vector<std::shared_ptr<SequenceGrammar>> grammars;
  if (num_grammars_ == 0) return grammars;
  const auto step = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](const Step& s) { return s.number == plan.step; });
  if (step == in_flight_.end()) return grammars;
  const auto add = [&](std::size_t row, RequestId id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end() || found->second->grammar == nullptr) return;
    grammars.resize(plan.rows.size());
    if (grammars[row] == nullptr) grammars[row] = found->second->grammar;
  };
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    if (plan.rows[i].sample) add(i, step->sequences[i]);
  }
  // A fork's grammar stands where its row's stands; the row's own sequence may have ended.
  for (std::size_t f = 0; f < plan.forks.size(); ++f)
    add(static_cast<std::size_t>(plan.forks[f].row), step->forks[f]);
  return grammars;
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats;
  stats.running = static_cast<std::int32_t>(running_.size());
  for (const auto& [id, family] : families_)
    stats.deferred += static_cast<std::int32_t>(family.others.size());
  stats.waiting = static_cast<std::int32_t>(waiting_.size()) + stats.deferred;
  stats.waiting_tokens = waiting_.num_tokens();
  for (const Sequence* sequence : running_) {
    const auto positions =
        static_cast<std::int64_t>(sequence->kv.num_blocks()) * options_.kv.block_size;
    stats.empty_positions += static_cast<std::int64_t>(sequence->kv.groups.size()) *
                             (positions - sequence->num_computed);
  }
  stats.preemptions = preemptions_;
  stats.aborted = aborted_;
  stats.finished = finished_;
  stats.admissions = admissions_;
  stats.started = started_;
  stats.kv = kv_.stats();
  return stats;
}

Status Scheduler::check_integrity() const {
  std::vector<const SequenceKv*> live;
  std::set<SlotId> slots;
  std::size_t num_slots = free_slots_.size() + ended_slots_.size(), num_grammars = 0;
  slots.insert(free_slots_.begin(), free_slots_.end());
  slots.insert(ended_slots_.begin(), ended_slots_.end());
  for (const auto& [id, sequence] : by_id_) {
    live.push_back(&sequence->kv);
    num_grammars += sequence->grammar != nullptr;
    if (sequence->slot != kNoSlot) {
      ++num_slots;
      slots.insert(sequence->slot);
    } else if (sequence->kv.num_blocks() != 0 || sequence->num_computed != 0) {
      return make_error(ErrorCode::kInternal, "request {} does not run and has {} blocks", id.value,
                        sequence->kv.num_blocks());
    }
    const std::int32_t unseen = std::max(0, sequence->num_drawing - 1);  // tokens, being computed
    if (sequence->num_computed > sequence->num_tokens() + unseen) {
      return make_error(ErrorCode::kInternal, "request {}: {} of {} tokens computed, {} unseen",
                        id.value, sequence->num_computed, sequence->num_tokens(), unseen);
    }
    if (sequence->num_drawing < 0 || (sequence->num_drawing > 0 && sequence->slot == kNoSlot)) {
      return make_error(ErrorCode::kInternal, "request {}: {} tokens are being drawn, slot {}",
                        id.value, sequence->num_drawing, sequence->slot.value);
    }
    const auto room = static_cast<std::int32_t>(sequence->kv.num_blocks()) * options_.kv.block_size;
    if (sequence->num_computed > room && !options_.kv.groups.empty()) {
      return make_error(ErrorCode::kInternal, "request {}: {} tokens computed in {} positions",
                        id.value, sequence->num_computed, room);
    }
  }
  if (num_slots != slots.size() || num_slots != static_cast<std::size_t>(options_.max_num_seqs)) {
    return make_error(ErrorCode::kInternal, "{} slots accounted for, {} different, of {}",
                      num_slots, slots.size(), options_.max_num_seqs);
  }
  if (num_grammars != num_grammars_) {
    return make_error(ErrorCode::kInternal, "{} grammars are counted, {} are there", num_grammars_,
                      num_grammars);
  }
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const Sequence& sequence = *running_[i];
    if (sequence.slot == kNoSlot || !by_id_.contains(sequence.request.id)) {
      return make_error(ErrorCode::kInternal, "request {} runs without a slot",
                        sequence.request.id.value);
    }
    const auto num_blocks = static_cast<std::int32_t>(sequence.kv.num_blocks());
    const std::int32_t size = options_.kv.block_size;
    if (!options_.kv.groups.empty() && num_blocks != (sequence.num_computed + size - 1) / size) {
      return make_error(ErrorCode::kInternal, "request {} has {} blocks for {} tokens",
                        sequence.request.id.value, num_blocks, sequence.num_computed);
    }
    if (i > 0 && running_[i - 1]->rank >= sequence.rank) {
      return make_error(ErrorCode::kInternal, "request {} runs out of the order of rank",
                        sequence.request.id.value);
    }
  }
  std::size_t num_parked = 0;
  for (const auto& [family, group] : beam_groups_) {
    num_parked += group->parked.size();
    for (const Sequence* host : group->parked) {
      if (host->kv.num_blocks() != 0 || host->num_computed != 0 || host->slot != kNoSlot) {
        return make_error(ErrorCode::kInternal, "request {} has no beam, but blocks or a slot",
                          host->request.id.value);
      }
    }
  }
  for (const auto& [id, family] : families_) num_parked += family.others.size();
  if (running_.size() + waiting_.size() + num_parked != by_id_.size()) {
    return make_error(ErrorCode::kInternal, "{} running, {} waiting and {} parked of {} sequences",
                      running_.size(), waiting_.size(), num_parked, by_id_.size());
  }
  for (const Step& step : in_flight_) {
    for (const SequenceKv& kv : step.to_release) live.push_back(&kv);
  }
  return kv_.check_integrity(live);
}

}  // namespace quire
