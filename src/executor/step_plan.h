// What one step computes, as flat arrays that could be copied byte by byte to another rank. Made by
// the scheduler, executed by the executor, applied by the scheduler.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "sampling/sampler.h"
#include "sampling/sampling_params.h"

namespace quire {

// Stands for "the token that this slot sampled in the step before" in StepPlan::token_ids.
inline constexpr TokenId kTokenFromPreviousStep = -1;

struct StepPlan {
  struct Row {  // one sequence's part of the step
    SlotId slot;
    std::int32_t start_pos = 0;   // position of its first token
    std::int32_t num_tokens = 0;  // >= 1
    std::int32_t logits_begin =
        0;  // rows (0..num_tokens) whose logits are wanted: [begin, num_tokens); equal: none
    bool sample = false;           // draw a token from the last row
    bool prompt_logprobs = false;  // log-probabilities of the prompt tokens after each wanted row
  };
  struct AddedSlot {
    SlotId slot;
    std::shared_ptr<const SamplingParams> params;
    std::shared_ptr<const std::vector<TokenId>> prompt;  // for penalties and prompt logprobs
    std::vector<TokenId> generated = {};  // what it had drawn before it was preempted
  };
  struct Copy {
    std::int32_t group, source, target, tokens;
  };
  // Between a slot's recurrent state and a snapshot of one.
  struct StateCopy {
    SlotId slot;
    std::int32_t snapshot;
  };
  struct SlotCopy {
    SlotId source, target;
  };
  // Another choice of the request whose prompt ends with this row: it draws its own first token
  // from the row's logits and goes on from the row's KV blocks and recurrent state.
  struct Fork {
    std::int32_t row;
    SlotId slot;
  };

  std::uint64_t step = 0;
  std::vector<SlotId> removed;  // done before `added`
  std::vector<AddedSlot> added;
  std::vector<Copy> copies;       // done before the forward pass
  std::vector<Fork> forks;        // in the order of rows
  std::vector<Copy> fork_copies;  // done after the forward pass: last blocks that forks go on with
  std::vector<SlotCopy> slot_copies;   // recurrent state, before the forward pass and the loads
  std::vector<StateCopy> state_loads;  // snapshot to slot, before the forward pass
  std::vector<StateCopy> state_saves;  // slot to snapshot, after it
  std::vector<Row> rows;
  std::vector<TokenId> token_ids;  // of all rows, concatenated
  // Per KV group: block ids of all rows, concatenated; table_begin[g] has rows + 1 entries.
  std::vector<std::vector<std::int32_t>> block_table, table_begin;

  std::int32_t num_tokens() const { return static_cast<std::int32_t>(token_ids.size()); }
  bool empty() const {
    return rows.empty() && added.empty() && removed.empty() && copies.empty() &&
           slot_copies.empty();
  }
};

// One entry per StepPlan::Row, same order.
struct StepResult {
  struct Row {
    TokenId token = -1;  // when sample
    bool has_logprobs = false;
    TokenLogprobs logprobs;  // when the slot asked for them
    std::vector<TokenLogprobs>
        prompt_logprobs;           // entry i: prompt token at start_pos + logits_begin + i + 1
    std::vector<float> embedding;  // [hidden_size], with the end of a prompt that asks for one
  };
  std::uint64_t step = 0;
  std::vector<Row> rows;
  std::vector<Row> forks;  // one per StepPlan::Fork, same order
};

}  // namespace quire
