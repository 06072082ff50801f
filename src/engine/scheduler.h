// Decides what the next step computes. One rule: scheduled = min(num_tokens - num_computed, budget
// left). Prefill, chunked prefill, decode and recompute after preemption are all that line; running
// sequences first, then waiting ones.
//
// Pure: time and measured costs are arguments, so a seed replays any bug. Engine thread only.
//
// What must hold (check_integrity): running sequences stand in the order of rank (policy.h), and
// only they hold blocks and executor slots; slots are below max_num_seqs; blocks that a planned
// step reads are reused only after that step is applied; nobody is preempted while a step before
// the planned one is in flight. Choices of one request (n > 1) wait while the first of them
// computes their prompt, hold nothing until its end and go on from its blocks; those that find no
// room then, or lose it, are sequences like any other (beams: see beam_group.h). A sequence that
// has become longer than the whole cache ends with kLength, like one that has reached
// max_model_len: so a sequence that is alone can always go on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/inline_vector.h"
#include "base/result.h"
#include "engine/answer_lengths.h"
#include "engine/beam_group.h"
#include "engine/deadlines.h"
#include "engine/growth_forecast.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "engine/step_costs.h"
#include "engine/waiting_queue.h"
#include "executor/step_plan.h"
#include "kv/kv_cache_manager.h"

namespace quire {

struct SchedulerOptions {
  std::int32_t max_num_batched_tokens = 2048;  // token budget of a step
  std::int32_t max_num_seqs = 128;
  std::int32_t max_model_len = 2048;
  // Prompt tokens that one sequence gets in one step, at most; 0: what the budget leaves. Below the
  // budget, several prompts are computed side by side.
  std::int32_t long_prefill_token_threshold = 0;
  // A step with sequences that generate is to take no longer, by the costs that plan() is told:
  // sizes the chunks of prompts. 0: no limit.
  double max_step_s = 0;
  // The same limit as a multiple of what the step would take without prompts, for one prompt; each
  // further one that is to be computed may add as much. With both, the longer time holds. 0: no
  // such limit.
  double max_step_ratio = 0;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  // Nothing starts that, by the lengths of past answers, would make the cache overflow as it grows.
  // Without it, sequences start while their prompts fit, and more of them are preempted.
  bool forecast_growth = true;
  double growth_deviations = 1.0;  // room above the mean, in standard deviations
  // A plan that is made before the last one is applied goes on with sequences whose last token is
  // still being drawn.
  bool async_scheduling = false;
  KvCacheOptions kv;
};

// What a step decided about one sequence, in the order of tokens; consumed by the output thread.
struct SequenceUpdate {
  RequestId id;
  InlineVector<TokenId, 2> tokens;             // new ones (usually one)
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
  std::int32_t deferred = 0;        // of waiting: another choice computes their prompt
  std::int64_t waiting_tokens = 0;  // to be computed before those that wait go on
  // Positions in the blocks of running sequences, of all groups, that no token is in: the end of
  // each one's last block.
  std::int64_t empty_positions = 0;
  // Since the start; admissions count a preempted sequence again.
  std::int64_t preemptions = 0, aborted = 0, finished = 0, admissions = 0, started = 0;
  KvStats kv;
};

// A request that was given up because its time had passed.
struct ExpiredRequest {
  RequestId id;
  bool in_queue = false;  // the time that it may wait has passed, not all its time
  double waited_s = 0;    // since its arrival
  std::int32_t num_generated = 0;
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
  // Drops the requests whose deadlines have passed, at whatever state, and names them.
  std::vector<ExpiredRequest> expire(double now_s);
  // What the next step computes. A plan with rows must be executed and applied; plans are applied
  // in order, and one may be made before the last is applied. A plan without rows may still add
  // nothing but remove slots: it is submitted unless empty(); applying it does nothing.
  StepPlan plan(double now_s, const StepCosts& costs);
  // With async scheduling: whether the next step can be planned as well as it will be once the one
  // step in flight is applied. Not when that one draws a token that must be known first (grammars,
  // beams), when blocks would be taken away (only of sequences without a planned row), or when
  // somebody more urgent wants their place.
  bool can_plan_ahead();
  // The grammars of the rows that draw a token: one per row of a planned step, null for rows
  // without; empty when no row has one. Asked for when all steps before it that draw tokens of
  // these sequences are applied.
  std::vector<std::shared_ptr<SequenceGrammar>> grammars(const StepPlan& plan) const;
  // Takes the result of a planned step; returns what happened, by sequence, in the order of rows.
  std::vector<SequenceUpdate> apply(const StepPlan& plan, const StepResult& result, double now_s);
  // The same into `updates`, which keeps its memory.
  void apply(const StepPlan& plan, const StepResult& result, double now_s,
             std::vector<SequenceUpdate>& updates);
  // Gives the memory of an applied plan to a later one.
  void recycle(StepPlan&& plan);
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

  // Choices of one request until the end of their prompt is planned: the first one runs or stands
  // in the queue, the others wait for it beside the queue.
  struct Family {
    Sequence* first = nullptr;
    std::vector<Sequence*> others;
  };
  // A planned row that ends the prompt of a family.
  struct FamilyRow {
    std::int32_t row;
    Sequence* first;
  };
  // Tokens that the step being planned may still take.
  struct Budget {
    std::int32_t tokens = 0;   // all
    std::int32_t prompts = 0;  // of these, chunks of prompts
    // Where a step's time is limited: the costs, and what prompts may still take by them.
    const StepCosts* costs = nullptr;
    double prompt_s = 0;
  };

  // scheduler_plan.cpp
  void reserve(StepPlan& plan) const;
  void begin_step(std::uint64_t number);
  Budget step_budget(const StepCosts& costs) const;
  double prompt_time(const StepCosts& costs, std::int32_t generating, std::int32_t prompts) const;
  std::int32_t within_time(const Sequence& sequence, std::int32_t num_tokens, Budget& budget) const;
  bool can_go_ahead(const Sequence& sequence) const;
  std::int32_t num_schedulable(const Sequence& sequence) const;
  std::int32_t take_tokens(const Sequence& sequence, Budget& budget) const;
  bool schedule_running(StepPlan& plan, Budget& budget);
  void schedule_waiting(StepPlan& plan, Budget& budget, double now_s);
  void remove_ended_slots(StepPlan& plan);
  void begin_block(StepPlan& plan, Sequence& sequence);
  void give_slot(StepPlan& plan, Sequence& sequence);
  void add_row(StepPlan& plan, Sequence& sequence, std::int32_t num_tokens);

  // scheduler_room.cpp
  void make_way();
  bool can_make_way(const Sequence& next) const;
  bool make_room(std::size_t i, std::int32_t num_tokens);
  void preempt_last();
  bool admit(Sequence& sequence);
  bool will_fit(const Sequence& sequence);
  std::vector<std::int32_t> promised_blocks(std::int32_t more_tokens) const;

  // scheduler_fork.cpp
  bool add_to_family(Sequence& sequence);
  bool remove_from_family(Sequence& sequence);
  std::size_t num_waiting_for_family() const;
  void fork_families(StepPlan& plan, double now_s);
  void fork_choices(StepPlan& plan, std::int32_t row, Sequence& first, double now_s);
  void pass_on(const RequestId& family);
  bool fork(StepPlan& plan, std::int32_t row, const Sequence& first, Sequence& other,
            std::span<const std::int32_t> headroom);

  // scheduler_beam.cpp
  void add_beam(Sequence& sequence);
  bool abandon_beam(Sequence& sequence);
  void remove_beams(BeamGroup& group);
  void end_slot(Sequence& sequence);
  void park(Sequence& host);
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
  void end(const SequenceUpdate& update);
  Sequence* find(RequestId id) const;
  static void take_prompt_logprobs(Sequence& sequence, const StepPlan::Row& row,
                                   const StepResult::Row& result);
  SequenceUpdate make_update(Sequence& sequence, const StepPlan::Row& row,
                             const StepResult::Row& result) const;
  void decide_finish(const Sequence& sequence, SequenceUpdate& update) const;

  // scheduler.cpp
  bool remove(RequestId id, bool cut);
  void run(Sequence& sequence, double now_s);
  void reserve(Sequence& sequence);
  void release(SequenceKv&& kv);

  SchedulerOptions options_;
  KvCacheManager kv_;
  AnswerLengths lengths_;
  GrowthForecast forecast_;
  std::optional<std::int64_t> forecast_priority_;  // whom forecast_ counts in; none: not made
  Deadlines deadlines_, queue_deadlines_;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> by_id_;  // all
  std::vector<Sequence*> running_;                                  // in the order of rank
  WaitingQueue waiting_;
  std::unordered_map<RequestId, Family> families_;  // by Request::family
  std::vector<SlotId> free_slots_;                  // last one is given next
  std::vector<SlotId> ended_slots_;                 // the next plan tells the executor
  StepPlan pending_;  // slots and copies that the next plan begins with
  std::unordered_map<RequestId, std::unique_ptr<BeamGroup>> beam_groups_;  // by family
  std::vector<Step> in_flight_;    // oldest first; hardly ever more than two
  std::vector<Step> spare_steps_;  // empty, for their memory
  StepPlan spare_plan_;
  bool planning_ = false;         // the last of in_flight_ is being planned
  std::size_t num_grammars_ = 0;  // sequences that have one
  std::uint64_t next_step_ = 1, next_number_ = 1;
  std::int64_t preemptions_ = 0, aborted_ = 0, finished_ = 0, admissions_ = 0, started_ = 0;
};

}  // namespace quire
