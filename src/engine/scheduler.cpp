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
    : options_(std::move(options)), kv_(kv_options(options_)) {
  QUIRE_CHECK(options_.max_num_batched_tokens > 0 && options_.max_num_seqs > 0);
  for (std::int32_t i = options_.max_num_seqs; i-- > 0;) free_slots_.push_back(SlotId(i));
}

void Scheduler::add(Request request, double /*now_s*/) {
  QUIRE_CHECK(
      !request.prompt->empty() && could_fit(static_cast<std::int32_t>(request.prompt->size())),
      "request {} has a prompt of {} tokens", request.id.value, request.prompt->size());
  auto sequence = std::make_unique<Sequence>(std::move(request));
  const bool is_new = by_id_.emplace(sequence->request.id, sequence.get()).second;
  QUIRE_CHECK(is_new, "request id {} is used twice", sequence->request.id.value);
  if (sequence->request.beam && !sequence->scoring_only()) return add_beam(std::move(sequence));
  waiting_.push_back(std::move(sequence));
}

bool Scheduler::abort(RequestId id) {
  const bool known = remove(id);
  aborted_ += known;
  return known;
}

bool Scheduler::finish(RequestId id) {
  const bool known = remove(id);
  finished_ += known;
  return known;
}

// Takes a sequence out, wherever it is.
bool Scheduler::remove(RequestId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  Sequence* const sequence = found->second;
  if (sequence->beam != nullptr) return abandon_beam(*sequence);
  by_id_.erase(found);
  release(std::move(sequence->kv));
  end_slot(*sequence);
  const auto is_it = [&](const auto& other) { return other.get() == sequence; };
  if (std::erase_if(running_, is_it) == 0) std::erase_if(waiting_, is_it);
  return true;
}

// Gives blocks back: at once, or when the last planned step that may name them has been applied.
void Scheduler::release(SequenceKv&& kv) {
  if (in_flight_.empty()) {
    kv_.release(kv);
  } else {
    in_flight_.back().to_release.push_back(std::move(kv));
  }
}

std::vector<std::shared_ptr<SequenceGrammar>> Scheduler::grammars(const StepPlan& plan) const {
  std::vector<std::shared_ptr<SequenceGrammar>> grammars;
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
  return {static_cast<std::int32_t>(running_.size()),
          static_cast<std::int32_t>(waiting_.size()),
          preemptions_,
          aborted_,
          finished_,
          kv_.stats()};
}

Status Scheduler::check_integrity() const {
  std::vector<const SequenceKv*> live;
  std::set<SlotId> slots;
  std::size_t num_slots = free_slots_.size() + ended_slots_.size();
  slots.insert(free_slots_.begin(), free_slots_.end());
  slots.insert(ended_slots_.begin(), ended_slots_.end());
  for (const auto& [id, sequence] : by_id_) {
    live.push_back(&sequence->kv);
    if (sequence->slot != kNoSlot) {
      ++num_slots;
      slots.insert(sequence->slot);
    }
    if (sequence->num_computed > sequence->num_tokens()) {
      return make_error(ErrorCode::kInternal, "request {}: {} of {} tokens computed", id.value,
                        sequence->num_computed, sequence->num_tokens());
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
  for (const auto& sequence : running_) {
    if (sequence->slot == kNoSlot || !by_id_.contains(sequence->request.id)) {
      return make_error(ErrorCode::kInternal, "request {} runs without a slot",
                        sequence->request.id.value);
    }
  }
  for (const auto& sequence : waiting_) {
    if (sequence->kv.num_blocks() != 0 || sequence->num_computed != 0) {
      return make_error(ErrorCode::kInternal, "request {} waits with {} blocks",
                        sequence->request.id.value, sequence->kv.num_blocks());
    }
  }
  std::size_t num_parked = 0;
  for (const auto& [family, group] : beam_groups_) {
    num_parked += group->parked.size();
    for (const auto& host : group->parked) {
      if (host->kv.num_blocks() != 0 || host->num_computed != 0 || host->slot != kNoSlot) {
        return make_error(ErrorCode::kInternal, "request {} has no beam, but blocks or a slot",
                          host->request.id.value);
      }
    }
  }
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
