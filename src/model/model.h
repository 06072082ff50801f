// A decoder-only language model: token ids and a KV cache in, logits out. Composed from the layers
// in model/layers over a Backend; knows nothing of requests. Called on the engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/workspace.h"
#include "base/result.h"
#include "tensor/kv_geometry.h"

namespace quire {

// The rows (tokens) of one step, of all its sequences, concatenated.
struct ModelInput {
  std::span<const std::int32_t> token_ids;  // [rows]
  std::span<const std::int32_t> positions;  // [rows]
  std::vector<AttentionBatch>
      groups;  // one per KV group; row_begin and start_pos are the same in all
  std::span<const std::int32_t>
      row_begin;  // [sequences + 1], as in the groups (a model may have none)
  std::span<const std::int32_t> start_pos;  // [sequences]
  std::span<const std::int32_t>
      prompt_tokens;  // [sequences]: length of the prompt (RoPE kinds that look at it)
  std::span<const std::int32_t> slots;  // [sequences]: where the sequence's recurrent state lives
  std::int64_t rows() const { return static_cast<std::int64_t>(token_ids.size()); }
};

class Model {
 public:
  virtual ~Model() = default;
  virtual KvGeometry kv_geometry(std::int32_t block_size, DType kv_dtype) const = 0;
  // Scratch that forward and logits take for a step of at most max_rows, max_logits rows of them
  // with logits.
  virtual std::size_t workspace_bytes(std::int64_t max_rows, std::int64_t max_logits) const = 0;
  // Stores K and V of every row and writes the last hidden state, before the final norm.  hidden:
  // [rows, hidden_size]
  virtual void forward(const ModelInput& input, KvCache& cache, Workspace& workspace,
                       float* hidden) = 0;
  // hidden: [rows, hidden_size] (any rows of forward's output); logits: [rows, vocab_size]
  virtual void logits(const float* hidden, std::int64_t rows, Workspace& workspace,
                      float* logits) = 0;

  // The final norm of hidden states, what logits and embeddings are made of. out: [rows,
  // hidden_size]
  virtual void final_hidden(const float* hidden, std::int64_t rows, float* out) = 0;

  // Memory for the recurrent state of this many slots (ModelInput::slots are below it), before the
  // first forward.
  virtual void reserve_slots(std::int32_t /*slots*/) {}
  // Copies the recurrent state of one slot to another, between two calls of forward.
  virtual void copy_state(std::int32_t /*from*/, std::int32_t /*to*/) {}

  // Requests share K and V of a common prefix only where this is the same for both (RoPE kinds that
  // look at a request's length). To be part of the prefix cache's salt; 0 is the regime of every
  // request of most models.
  virtual std::uint64_t kv_regime(std::int64_t /*prompt_tokens*/) const { return 0; }

  std::int64_t hidden_size = 0, vocab_size = 0;
  std::int64_t weight_bytes = 0;  // packed, in memory of our own
  // Keeps a state per sequence besides K and V: a sequence can be computed from its first token on
  // or from where a copy of its state was taken, each of its tokens once.
  bool has_recurrent_state = false;
  std::int64_t state_bytes_per_slot = 0;
};

}  // namespace quire
