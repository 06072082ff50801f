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

// Whether the prompt of this waiting sequence is being computed for another choice.
bool Scheduler::waits_for_family(const Sequence& sequence) const {
  if (!is_new(sequence)) return false;
  return std::ranges::any_of(running_, [&](const auto& first) {
    return first->request.family == sequence.request.family && is_new(*first) &&
           !first->prompt_shared;
  });
}

void Scheduler::fork_families(StepPlan& plan, double now_s) {
  const std::vector<RequestId>& sequences = in_flight_.back().sequences;
  for (const auto& sequence : running_) {
    if (!is_new(*sequence) || sequence->prompt_shared ||
        sequence->num_computed < sequence->num_prompt) {
      continue;
    }
    sequence->prompt_shared = true;
    const auto row = std::ranges::find(sequences, sequence->request.id) - sequences.begin();
    families_.push_back({static_cast<std::int32_t>(row), sequence.get()});
  }
  std::ranges::sort(families_, {}, &Family::row);
  for (const Family& family : families_) fork_choices(plan, family.row, *family.first, now_s);
  families_.clear();
}

void Scheduler::fork_choices(StepPlan& plan, std::int32_t row, const Sequence& first,
                             double now_s) {
  // What those that run will need soon, and one block for this choice to grow into.
  std::vector<std::int32_t> headroom = promised_blocks();
  for (std::int32_t& blocks : headroom) ++blocks;
  for (std::size_t i = 0; i < waiting_.size();) {
    Sequence& other = *waiting_[i];
    if (other.request.family != first.request.family || !is_new(other)) {
      ++i;
      continue;
    }
    if (!fork(plan, row, first, other, headroom)) return;
    if (other.scheduled_s == 0) other.scheduled_s = now_s;
    running_.push_back(std::move(waiting_[i]));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::int32_t& blocks : headroom) ++blocks;
  }
}

// False when there is no place, slot or block for it.
bool Scheduler::fork(StepPlan& plan, std::int32_t row, const Sequence& first, Sequence& other,
                     std::span<const std::int32_t> headroom) {
  QUIRE_CHECK(first.num_computed == first.num_prompt && first.num_prompt == other.num_prompt,
              "request {} of {} tokens is a choice for a prompt of {}", other.request.id.value,
              other.num_prompt, first.num_prompt);
  if (running_.size() >= static_cast<std::size_t>(options_.max_num_seqs)) return false;
  if (other.slot == kNoSlot && free_slots_.empty()) return false;
  if (!kv_.can_fork(first.num_computed, headroom)) return false;
  std::vector<KvCacheManager::Copy> copies;
  if (!kv_.fork(first.kv, other.kv, first.num_computed, &copies)) return false;
  if (other.slot == kNoSlot) give_slot(plan, other);
  for (const auto& copy : copies) {
    plan.fork_copies.push_back({copy.group, copy.source.value, copy.target.value, copy.tokens});
  }
  plan.forks.push_back({row, other.slot});
  in_flight_.back().forks.push_back(other.request.id);
  other.num_computed = first.num_computed;
  other.cached_tokens = first.cached_tokens;
  other.prompt_logprobs = first.prompt_logprobs;
  other.num_prompt_logprobs_planned = first.num_prompt_logprobs_planned;
  other.prompt_shared = other.forked = true;
  return true;
}

}  // namespace quire
