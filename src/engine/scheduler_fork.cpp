// Several choices for one prompt: the first that is admitted computes it; in the step that computes
// its last token the others draw their first tokens from the same logits and go on from its blocks,
// the last one copied. A choice that finds no room then stays in the queue and is admitted like any
// other sequence, as the first of those that are left.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"

namespace quire {
namespace {

// It has nothing yet that the prompt of another choice could not give it.
bool is_new(const Sequence& sequence) {
  return sequence.request.family && sequence.beam == nullptr && sequence.num_generated() == 0 &&
         !sequence.scoring_only();
}

}  // namespace

// True when it is not the first choice for its prompt that waits: it need not stand in the queue.
bool Scheduler::add_to_family(Sequence& sequence) {
  if (!is_new(sequence)) return false;
  Family& family = families_[*sequence.request.family];
  if (family.first != nullptr) {
    family.others.push_back(&sequence);
    return true;
  }
  family.first = &sequence;
  return false;
}

// Of a sequence that ends, also when it had left the family. True when it was still in.
bool Scheduler::remove_from_family(Sequence& sequence) {
  if (!sequence.request.family) return false;
  const auto found = families_.find(*sequence.request.family);
  if (found == families_.end()) return false;
  if (found->second.first != &sequence) return std::erase(found->second.others, &sequence) > 0;
  pass_on(*sequence.request.family);
  return true;
}

// The first of the family's others takes the place of the first.
void Scheduler::pass_on(const RequestId& id) {
  Family& family = families_.at(id);
  if (family.others.empty()) {
    families_.erase(id);
    return;
  }
  family.first = family.others.front();
  family.others.erase(family.others.begin());
  waiting_.add_preempted(family.first);  // its turn has come already
}

// Choices that will want to run as soon as the prompt of a running one is computed.
std::size_t Scheduler::num_waiting_for_family() const {
  std::size_t count = 0;
  for (const auto& [id, family] : families_) {
    if (family.first->slot != kNoSlot) count += family.others.size();
  }
  return count;
}

void Scheduler::fork_families(StepPlan& plan, double now_s) {
  if (families_.empty()) return;
  std::vector<FamilyRow> rows;
  const std::vector<RequestId>& sequences = in_flight_.back().sequences;
  for (const auto& [id, family] : families_) {
    Sequence& first = *family.first;
    if (first.slot == kNoSlot || first.num_computed < first.num_prompt) continue;
    first.prompt_shared = true;
    const auto row = std::ranges::find(sequences, first.request.id) - sequences.begin();
    rows.push_back({static_cast<std::int32_t>(row), &first});
  }
  std::ranges::sort(rows, {}, &FamilyRow::row);
  for (const FamilyRow& row : rows) fork_choices(plan, row.row, *row.first, now_s);
}

// The family ends here, or goes on with a choice that has found no room.
void Scheduler::fork_choices(StepPlan& plan, std::int32_t row, Sequence& first, double now_s) {
  const RequestId id = *first.request.family;
  Family& family = families_.at(id);
  // What those that run will need soon, and one block for this choice to grow into.
  std::vector<std::int32_t> headroom = promised_blocks(options_.kv.block_size);
  for (std::int32_t& blocks : headroom) ++blocks;
  std::size_t num_forked = 0;
  for (; num_forked < family.others.size(); ++num_forked) {
    Sequence& other = *family.others[num_forked];
    if (!fork(plan, row, first, other, headroom)) break;
    run(other, now_s);
    for (std::int32_t& blocks : headroom) ++blocks;
  }
  family.others.erase(family.others.begin(),
                      family.others.begin() + static_cast<std::ptrdiff_t>(num_forked));
  pass_on(id);
}

// False when there is no place, slot or block for it.
bool Scheduler::fork(StepPlan& plan, std::int32_t row, const Sequence& first, Sequence& other,
                     std::span<const std::int32_t> headroom) {
  QUIRE_CHECK(first.num_computed == first.num_prompt && first.num_prompt == other.num_prompt,
              "request {} of {} tokens is a choice for a prompt of {}", other.request.id.value,
              other.num_prompt, first.num_prompt);
  if (running_.size() >= static_cast<std::size_t>(options_.max_num_seqs)) return false;
  if (free_slots_.empty()) return false;
  if (!kv_.can_fork(first.num_computed, headroom)) return false;
  std::vector<KvCacheManager::Copy> copies;
  if (!kv_.fork(first.kv, other.kv, first.num_computed, &copies)) return false;
  give_slot(plan, other);
  for (const auto& copy : copies) {
    plan.fork_copies.push_back({copy.group, copy.source.value, copy.target.value, copy.tokens});
  }
  plan.forks.push_back({row, other.slot});
  in_flight_.back().forks.push_back(other.request.id);
  other.num_computed = first.num_computed;
  other.num_drawing = 1;
  other.cached_tokens = first.cached_tokens;
  other.prompt_logprobs = first.prompt_logprobs;
  other.num_prompt_logprobs_planned = first.num_prompt_logprobs_planned;
  other.prompt_shared = other.forked = true;
  return true;
}

}  // namespace quire
