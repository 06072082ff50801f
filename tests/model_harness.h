// A model over weights of any source, step by step, without an engine: what tests of whole models
// that have no tokenizer share.
#pragma once

#include <memory>
#include <vector>

#include "model/registry.h"
#include "weights/weight_source.h"

namespace quire {

struct HarnessOptions {
  ComputeDType dtype = ComputeDType::kAuto;
  const char* kernels = "auto";
  std::optional<DType> kv = {};  // without: float32 under float32, else bfloat16
};

// Tokens [begin, end) of a sequence in one step.
struct HarnessPart {
  const std::vector<std::int32_t>& tokens;
  std::int32_t begin, end, slot;
};

// Two sequences of up to 64 tokens, in blocks of 8. Throws where the model cannot be made.
class Harness {
 public:
  Harness(const ModelConfig& config, const WeightSource& weights, const HarnessOptions& options,
          int threads);

  // Logits of all rows, part after part.
  std::vector<float> step(const std::vector<HarnessPart>& parts);
  std::size_t vocab() const { return static_cast<std::size_t>(model_->vocab_size); }
  std::string description() const { return backend_->description(); }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Workspace> workspace_;
};

// A sequence in chunks beside another one, on two threads, has the bits of one that runs alone, in
// one step, on one thread.
void expect_bits_of_the_sequence_alone(const ModelConfig& config, const WeightSource& weights,
                                       const HarnessOptions& options);

}  // namespace quire
