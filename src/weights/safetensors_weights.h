// The weights of a Hugging Face folder. Names are looked up as the model's class in transformers
// has them; checkpoints of a base model (without "transformer.") or of a multimodal model (within
// "language_model.") are found under the same names.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "weights/safetensors_file.h"
#include "weights/weight_source.h"

namespace quire {

class SafetensorsWeights : public WeightSource {
 public:
  explicit SafetensorsWeights(SafetensorsFile file);
  TensorView find(std::string_view name) const override;
  void release_pages(const TensorView& view) const override { file_.release_pages(view); }
  std::vector<std::string> names() const override;
  bool permuted_qk() const override { return false; }

 protected:
  using Tensors = std::unordered_map<std::string, TensorView>;
  std::string stored_name(std::string_view name) const override;
  const Tensors& tensors() const { return tensors_; }
  // What there is to find, in place of the file's own list.
  void set_tensors(Tensors tensors);

 private:
  SafetensorsFile file_;
  Tensors tensors_;
  std::unordered_map<std::string, std::string> text_names_;  // of a text half -> as stored
};

}  // namespace quire
