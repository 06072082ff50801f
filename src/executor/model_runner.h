// Executes steps of one model on one backend: builds the model's input from a plan, runs the
// forward pass, and turns the wanted rows of logits into tokens. Owns the KV cache's memory, the
// workspace and the sampling state. One caller at a time.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "executor/executor.h"
#include "executor/kv_sizing.h"
#include "executor/pooler.h"
#include "model/model.h"
#include "sampling/sampler.h"

namespace quire {

class ModelRunner final : public Executor {
 public:
  struct Options {
    std::int32_t max_num_batched_tokens = 2048;
    std::int32_t max_num_seqs = 128;  // slots of recurrent state; plans' slots are below it
    std::int32_t num_snapshots = 0;   // of recurrent state
    KvGeometry geometry;
    std::vector<std::int32_t> num_blocks;
  };
  ModelRunner(std::unique_ptr<Backend> backend, std::unique_ptr<Model> model, Options options);

  const Capacity& capacity() const override { return capacity_; }
  std::uint64_t kv_regime(std::int64_t prompt_tokens) const override {
    return model_->kv_regime(prompt_tokens);
  }
  void warm_up() override;
  void touch_kv_cache() { cache_->touch(); }
  void submit(const StepPlan& plan) override;
  void submit(StepPlan&& plan) = delete;  // it would be gone before wait
  void sample(std::span<const TokenMask> masks) override;
  void wait(StepResult& result) override;
  using Executor::wait;

  // For tests: called with each slice of logits before sampling, in row order. logits: [rows,
  // vocab]
  using LogitsHook =
      std::function<void(const StepPlan&, std::span<const std::int32_t> plan_rows,
                         std::span<const std::int32_t> positions, const float* logits)>;
  void set_logits_hook(LogitsHook hook) { logits_hook_ = std::move(hook); }

 private:
  struct SlotState {
    std::shared_ptr<const SamplingParams> params;
    std::shared_ptr<const std::vector<TokenId>> prompt;
    TokenId last_token = -1;
  };
  // One row of logits that somebody wants.
  struct Wanted {
    std::int32_t plan_row, input_row, position;
  };

  void prepare(const StepPlan& plan);
  void update_slots(const StepPlan& plan);
  void build_input(const StepPlan& plan);
  const TokenMask& mask_of(std::size_t plan_row) const;
  bool take_only(std::size_t plan_row);
  void collect_wanted();
  void compute_logits(std::size_t begin, std::int64_t count);
  void run_logits();
  void finish_row(const Wanted& wanted, float* logits);
  void draw(SlotId slot, std::span<float> logits, std::size_t plan_row, StepResult::Row& out);
  void draw_forks(std::int32_t row, std::span<const float> logits);
  void pool_rows(const StepPlan& plan);
  void copy_blocks(const std::vector<StepPlan::Copy>& copies);
  void load_states(const StepPlan& plan);
  void save_states(const StepPlan& plan);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  Capacity capacity_;
  std::int32_t first_snapshot_;  // snapshot i is the model's state slot first_snapshot_ + i
  std::unique_ptr<KvCache> cache_;
  Sampler sampler_;
  Pooler pooler_;
  std::vector<SlotState> slots_;
  Buffer hidden_;         // f32 [max_num_batched_tokens, hidden]
  Buffer wanted_hidden_;  // f32 [kLogitsSlice, hidden]
  Buffer logits_;         // f32 [kLogitsSlice, vocab]
  std::unique_ptr<Workspace> workspace_;
  LogitsHook logits_hook_;

  std::uint64_t steps_ = 0;
  // Of the step in flight; kept to reuse their memory.
  ModelInput input_;
  std::vector<std::int32_t> token_ids_, positions_, row_begin_, start_pos_, prompt_tokens_,
      slot_ids_;
  std::vector<BlockCopy> copies_;
  const StepPlan* plan_ = nullptr;  // the caller's
  std::span<const TokenMask> masks_;
  std::vector<Wanted> wanted_;
  StepResult result_;
  bool in_flight_ = false;
};

}  // namespace quire
