// The weights of a GGUF file under Hugging Face's names. Expert stacks [experts, out, in] are found
// whole ("mlp.experts.gate_proj.weight") and one by one ("mlp.experts.3.gate_proj.weight").
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "weights/gguf_file.h"
#include "weights/weight_source.h"

namespace quire {

class GgufWeights : public WeightSource {
 public:
  GgufWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config);
  TensorView find(std::string_view name) const override;
  void release_pages(const TensorView& view) const override { file_->release_pages(view); }
  std::vector<std::string> names() const override { return names_; }
  bool permuted_qk() const override { return permuted_qk_; }

 protected:
  std::string stored_name(std::string_view name) const override;

 private:
  void add_metadata_vectors(const ModelConfig& config);

  std::shared_ptr<const GgufFile> file_;
  std::unordered_map<std::string, TensorView> tensors_;  // by Hugging Face's names
  std::vector<std::string> names_;                       // file order
  std::deque<float> from_metadata_;                      // numbers that a folder has as tensors
  bool permuted_qk_ = false;
};

}  // namespace quire
