// Makes embeddings of prompts: takes hidden states as chunks of the prompt are computed, in the
// order of positions, so that an embedding's bits do not depend on where the chunks end. A sequence
// that starts again at position 0 starts its sum again. Owned by the runner; engine thread only.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "model/model.h"
#include "tensor/buffer.h"
#include "tensor/pooling.h"

namespace quire {

class Pooler {
 public:
  explicit Pooler(Model* model);
  void remove_slot(SlotId slot) { sums_.erase(slot.value); }

  struct Chunk {
    SlotId slot;
    Pooling pooling = Pooling::kNone;
    std::int32_t start_pos = 0, num_tokens = 0, prompt_tokens = 0;
  };
  // hidden: [num_tokens, hidden_size], before the final norm. The embedding, [hidden_size], when
  // the chunk ends the prompt; else empty.
  std::vector<float> take(const Chunk& chunk, const float* hidden);

 private:
  std::vector<float> normed(const float* hidden_row);

  Model* model_;
  Buffer rows_;                                                 // f32 [kRows, hidden_size]
  std::unordered_map<std::int32_t, std::vector<double>> sums_;  // by slot
};

}  // namespace quire
