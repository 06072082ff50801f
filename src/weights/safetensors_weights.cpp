#include "weights/safetensors_weights.h"

#include <algorithm>

namespace quire {
namespace {

struct Prefix {
  std::string_view stored, wanted;
};
// Where multimodal checkpoints keep the text half.
constexpr Prefix kTextPrefixes[] = {
    {"model.language_model.", "model."},
    {"model.text_model.", "model."},
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."},
};
// What checkpoints of the bare model leave out.
constexpr std::string_view kBasePrefixes[] = {"transformer.", "model.", "gpt_neox.", "backbone."};

}  // namespace

SafetensorsWeights::SafetensorsWeights(SafetensorsFile file) : file_(std::move(file)) {
  set_tensors(file_.tensors());
}

void SafetensorsWeights::set_tensors(Tensors tensors) {
  tensors_ = std::move(tensors);
  text_names_.clear();
  for (const auto& [name, view] : tensors_) {
    for (const Prefix& prefix : kTextPrefixes) {
      if (!name.starts_with(prefix.stored)) continue;
      text_names_.emplace(std::string(prefix.wanted) + name.substr(prefix.stored.size()), name);
      break;
    }
  }
}

std::string SafetensorsWeights::stored_name(std::string_view name) const {
  std::string plain(name);
  if (tensors_.contains(plain)) return plain;
  if (const auto found = text_names_.find(plain); found != text_names_.end()) return found->second;
  for (std::string_view prefix : kBasePrefixes) {
    if (!name.starts_with(prefix)) continue;
    std::string bare(name.substr(prefix.size()));
    if (tensors_.contains(bare)) return bare;
  }
  return plain;
}

TensorView SafetensorsWeights::find(std::string_view name) const {
  const auto found = tensors_.find(stored_name(name));
  return found == tensors_.end() ? TensorView{} : found->second;
}

std::vector<std::string> SafetensorsWeights::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, view] : tensors_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace quire
