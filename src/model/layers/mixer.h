// The two halves of a decoder layer as interfaces: a Mixer lets tokens see each other (attention,
// state spaces, convolutions), a FeedForward works on each token alone. Both are free of norms and
// residuals, which Transformer adds. Engine thread only. A row's output depends on that row and its
// own sequence's past only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/workspace.h"
#include "base/check.h"
#include "model/model.h"
#include "tensor/buffer.h"

namespace quire {

// State of recurrent layers: f32, one part per layer in each sequence slot. Sized once by
// reserve_slots().
class RecurrentStore {
 public:
  // At load, once per layer: the offset of its part, for state().
  std::int64_t add_layer(std::int64_t floats) {
    const std::int64_t offset = floats_per_slot_;
    floats_per_slot_ += (floats + 15) / 16 * 16;
    return offset;
  }
  void reserve_slots(std::int32_t slots) {
    slots_ = slots;
    buffer_ = Buffer(static_cast<std::size_t>(slots * floats_per_slot_) * sizeof(float));
  }
  // The layer's part in this slot; all zeros when the sequence begins (start_pos 0). 64-byte
  // aligned.
  float* state(std::int64_t offset, std::int64_t floats, std::int32_t slot,
               std::int32_t start_pos) {
    QUIRE_CHECK(slot >= 0 && slot < slots_, "slot {} of {}: reserve_slots() came too short", slot,
                slots_);
    float* const p = buffer_.as<float>() + slot * floats_per_slot_ + offset;
    if (start_pos == 0) std::fill(p, p + floats, 0.0f);
    return p;
  }
  // All layers' parts of a slot, to another slot.
  void copy(std::int32_t from, std::int32_t to) {
    QUIRE_CHECK(from >= 0 && from < slots_ && to >= 0 && to < slots_, "slots {}, {} of {}", from,
                to, slots_);
    const float* const source = buffer_.as<float>() + from * floats_per_slot_;
    std::copy(source, source + floats_per_slot_, buffer_.as<float>() + to * floats_per_slot_);
  }
  std::int64_t bytes_per_slot() const {
    return floats_per_slot_ * static_cast<std::int64_t>(sizeof(float));
  }

 private:
  std::int64_t floats_per_slot_ = 0;
  std::int32_t slots_ = 0;
  Buffer buffer_;
};

// cos and sin of the step's rows for one kind of rotary positions, computed once and shared by all
// layers. [rows, rotary_dim / 2]
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  std::int32_t rotary_dim = 0;
  bool interleaved = false;
};

struct MixerContext {
  const ModelInput& input;
  std::span<const RopeTable> ropes;  // by index into ModelSpec::ropes
  KvCache& cache;
  RecurrentStore& states;
};

class Mixer {
 public:
  virtual ~Mixer() = default;
  // y = mixer(x), or y += mixer(x).  x, y: [rows, hidden], not the same
  virtual void forward(Backend& backend, Workspace& workspace, const MixerContext& context,
                       const float* x, Epilogue epilogue, float* y) const = 0;
  // Scratch that forward takes from the workspace, per row of the step (constant amounts below 64
  // KiB need no mention).
  virtual std::int64_t scratch_floats_per_row() const = 0;

  // What it keeps per token: shape and reach of its K and V (num_layers is filled by the model).
  // Attention only.
  virtual std::optional<KvGroup> kv_group() const { return std::nullopt; }
  // What it keeps per sequence, in floats. Recurrent layers only.
  virtual std::int64_t state_floats() const { return 0; }

  // Where the model has put these, before the first forward.
  std::int32_t kv_group_index = 0, kv_layer = 0;
  std::int64_t state_offset = 0;
};

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  // y = mlp(x), or y += mlp(x).  x, y: [rows, hidden], not the same
  virtual void forward(Backend& backend, Workspace& workspace, const float* x, std::int64_t rows,
                       Epilogue epilogue, float* y) const = 0;
  virtual std::int64_t scratch_floats_per_row() const = 0;
};

}  // namespace quire
