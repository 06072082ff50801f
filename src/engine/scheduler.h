// Decides what the next step computes. One rule: scheduled = min(num_tokens - num_computed, budget
// left). Prefill, chunked prefill, decode and recompute after preemption are all that line; running
// sequences first, then waiting ones.
//
// Pure: time and measured costs are arguments, so a seed replays any bug. Engine thread only.
//
// What must hold (check_integrity): only running sequences hold blocks; a sequence has an executor
// slot from its first step to its end, through preemptions; slots are below max_num_seqs; blocks
// that a planned step reads are reused only after that step is applied. Choices of one request
// (n > 1) wait while the first of them computes their prompt, hold nothing until its end and go on
// from its blocks; those that find no room then, or lose it, are sequences like any other (beams:
// see beam_group.h). A
// sequence that has become longer than the whole cache ends with kLength, like one that has reached
// max_model_len: so a sequence that is alone can always go on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/beam_group.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "executor/step_plan.h"
#include "kv/kv_cache_manager.h"

namespace quire {

struct SchedulerOptions {
  std::int32_t max_num_batched_tokens = 2048;  // token budget of a step
  std::int32_t max_num_seqs = 128;
  std::int32_t max_model_len = 2048;
  KvCacheOptions kv;
};

// What a step decided about one sequence, in the order of tokens; consumed by the output thread.
struct SequenceUpdate {
  RequestId id;
  std::vector<TokenId> tokens;                 // new ones (usually one)
  std::vector<TokenLogprobs> logprobs;         // parallel to tokens, or empty
  std::vector<TokenLogprobs> prompt_logprobs;  // with the first token: of prompt tokens 1..n-1
  bool has_prompt_logprobs = false;
  std::vector<float> embedding;  // of the prompt, when that is what was asked for
  std::optional<FinishReason> finish;
  std::optional<TokenId> stop_token;  // stop_token_ids hit (not eos)
  std::optional<Error> error;         // with kError
  bool text_ends_with_token = false;  // with kStop: the last token is text, not an end token
  std::int32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  bool first_token = false;
  bool forked = false;     // another choice computed its prompt
  double scheduled_s = 0;  // when its first step was planned
};

struct SchedulerStats {
  std::int32_t running = 0, waiting = 0;
  std::int64_t preemptions = 0, aborted = 0, finished = 0;  // since the start
  KvStats kv;
};

// Costs of past steps, for a step-time target (not used by the first policy).
struct StepCosts {
  double last_step_s = 0;
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerOptions options);
  // Takes the request into the waiting queue. The caller has checked that its prompt is not empty,
  // is shorter than max_model_len and could_fit.
  void add(Request request, double now_s);
  // Drops it at whatever state; its blocks are free when the last submitted step that names them is
  // applied. False when unknown (finished already).
  bool abort(RequestId id);
  // The same for a request that is complete: the output thread has found a stop string.
  bool finish(RequestId id);
  // What the next step computes. A plan with rows must be executed and applied; plans are applied
  // in order, and one may be made before the last is applied. A plan without rows may still add
  // nothing but remove slots: it is submitted unless empty(); applying it does nothing.
  StepPlan plan(double now_s, const StepCosts& costs);
  // The grammars of the rows that draw a token: one per row of a planned step, null for rows
  // without; empty when no row has one. Asked for when all steps before it are applied.
  std::vector<std::shared_ptr<SequenceGrammar>> grammars(const StepPlan& plan) const;
  // Takes the result of a planned step; returns what happened, by sequence, in the order of rows.
  std::vector<SequenceUpdate> apply(const StepPlan& plan, const StepResult& result, double now_s);
  bool has_work() const { return !running_.empty() || !waiting_.empty(); }

  SchedulerStats stats() const;
  Status check_integrity() const;
  bool reset_prefix_cache() { return kv_.reset(); }
  // Whether num_tokens fit in the cache when nothing else is there.
  bool could_fit(std::int32_t num_tokens) const { return kv_.could_fit(num_tokens); }

 private:
  // A planned step with rows that has not been applied.
  struct Step {
    std::uint64_t number = 0;
    std::vector<RequestId> sequences;    // by row
    std::vector<RequestId> forks;        // by StepPlan::Fork
    std::vector<SequenceKv> to_release;  // of sequences that ended meanwhile
  };

  // A planned row that ends the prompt of the first of several choices.
  struct Family {
    std::int32_t row;
    const Sequence* first;
  };

  // scheduler_plan.cpp
  std::int32_t row_tokens(const Sequence& sequence, std::int32_t budget) const;
  bool schedule_running(StepPlan& plan, std::int32_t& budget);
  void schedule_waiting(StepPlan& plan, std::int32_t& budget, double now_s);
  bool make_room(std::size_t i, std::int32_t num_tokens);
  void preempt_last();
  void remove_ended_slots(StepPlan& plan);
  bool admit(Sequence& sequence);
  std::vector<std::int32_t> promised_blocks() const;
  void give_slot(StepPlan& plan, Sequence& sequence);
  void add_row(StepPlan& plan, Sequence& sequence, std::int32_t num_tokens);

  // scheduler_fork.cpp
  bool waits_for_family(const Sequence& sequence) const;
  void fork_families(StepPlan& plan, double now_s);
  void fork_choices(StepPlan& plan, std::int32_t row, const Sequence& first, double now_s);
  bool fork(StepPlan& plan, std::int32_t row, const Sequence& first, Sequence& other,
            std::span<const std::int32_t> headroom);

  // scheduler_beam.cpp
  void add_beam(std::unique_ptr<Sequence> sequence);
  bool abandon_beam(Sequence& sequence);
  void remove_beams(BeamGroup& group);
  void end_slot(Sequence& sequence);
  void park(std::unique_ptr<Sequence> host);
  bool park_idle_beam(StepPlan& plan);
  void take_beam_offer(Sequence& sequence, const TokenLogprobs& offer,
                       std::vector<SequenceUpdate>& updates);
  void end_round(BeamGroup& group, std::vector<SequenceUpdate>& updates);
  void complete_beam(BeamGroup& group, const BeamStep& step, FinishReason reason) const;
  static void keep_best(BeamGroup& group);
  void finish_beams(BeamGroup& group, std::vector<SequenceUpdate>& updates);
  void continue_beams(BeamGroup& group, const std::vector<BeamStep>& steps);
  Sequence& start_beam(BeamGroup& group, const Sequence& parent);
  bool fork_beam(const Sequence& parent, Sequence& host);
  void unpark_beams(BeamGroup& group);

  // scheduler_apply.cpp
  void apply_row(const StepPlan& plan, const StepResult& result, const Step& step, std::size_t row,
                 std::vector<SequenceUpdate>& updates);
  Sequence* find(RequestId id) const;
  static void take_prompt_logprobs(Sequence& sequence, const StepPlan::Row& row,
                                   const StepResult::Row& result);
  SequenceUpdate make_update(Sequence& sequence, const StepPlan::Row& row,
                             const StepResult::Row& result) const;
  void decide_finish(const Sequence& sequence, SequenceUpdate& update) const;

  // scheduler.cpp
  bool remove(RequestId id);
  void release(SequenceKv&& kv);

  SchedulerOptions options_;
  KvCacheManager kv_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
  std::deque<std::unique_ptr<Sequence>> waiting_;   // preempted ones first, then by arrival
  std::unordered_map<RequestId, Sequence*> by_id_;  // all of both
  std::vector<SlotId> free_slots_;                  // last one is given next
  std::vector<SlotId> ended_slots_;                 // the next plan tells the executor
  StepPlan pending_;  // slots and copies that the next plan begins with
  std::unordered_map<RequestId, std::unique_ptr<BeamGroup>> beam_groups_;  // by family
  std::deque<Step> in_flight_;
  std::vector<Family> families_;  // of the step that is being planned
  std::uint64_t next_step_ = 1;
  std::int64_t preemptions_ = 0, aborted_ = 0, finished_ = 0;
};

}  // namespace quire
