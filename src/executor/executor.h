// Runs steps on the device: submit, sample, wait, once each per step. They are apart so that a
// grammar's masks are made, and the next step planned, while the forward pass runs. Called on one
// thread at a time: the engine's, or that of its StepRunner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "executor/step_plan.h"
#include "sampling/token_mask.h"
#include "tensor/kv_geometry.h"

namespace quire {

class Executor {
 public:
  virtual ~Executor() = default;
  struct Capacity {
    KvGeometry geometry;
    std::vector<std::int32_t> num_blocks;  // per KV group
    std::int64_t vocab_size = 0;
    std::int64_t model_bytes = 0;  // packed weights
    std::int64_t kv_bytes = 0;
    // The model keeps a state per slot: a sequence starts at position 0 or from a snapshot, also
    // after a preemption, and goes on where its last row ended.
    bool recurrent_state = false;
    std::int32_t num_snapshots = 0;
    std::int64_t state_bytes = 0;  // of all slots and snapshots
  };
  virtual const Capacity& capacity() const = 0;
  // Requests whose regimes differ must not share K and V of a common prefix (RoPE kinds that look
  // at a request's length): part of the prefix cache's salt. 0 for most models.
  virtual std::uint64_t kv_regime(std::int64_t /*prompt_tokens*/) const { return 0; }
  // Touches what the first step needs (threads, workspace).
  virtual void warm_up() = 0;
  // Starts a step's forward pass; at most one may be in flight. The plan stays as it is until wait
  // returns.
  virtual void submit(const StepPlan& plan) = 0;
  // Draws the submitted step's tokens. masks: one per row of the plan, or empty when no row has
  // one; they stay until wait returns.
  virtual void sample(std::span<const TokenMask> masks) = 0;
  // The result of the sampled step, in place of what `result` holds, whose memory serves a later
  // step.
  virtual void wait(StepResult& result) = 0;
  StepResult wait() {
    StepResult result;
    wait(result);
    return result;
  }
};

}  // namespace quire
