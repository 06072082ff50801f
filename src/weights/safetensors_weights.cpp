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
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."},
};
// What checkpoints of the bare model leave out.
constexpr std::string_view kBasePrefixes[] = {"transformer.", "model.", "gpt_neox.", "backbone."};

}  // namespace

SafetensorsWeights::SafetensorsWeights(SafetensorsFile file) : file_(std::move(file)) {
  for (const auto& [name, view] : file_.tensors()) {
    for (const Prefix& prefix : kTextPrefixes) {
      if (!name.starts_with(prefix.stored)) continue;
      text_names_.emplace(std::string(prefix.wanted) + name.substr(prefix.stored.size()), name);
      break;
    }
  }
}

std::string SafetensorsWeights::stored_name(std::string_view name) const {
  std::string plain(name);
  if (file_.tensors().contains(plain)) return plain;
  if (const auto found = text_names_.find(plain); found != text_names_.end()) return found->second;
  for (std::string_view prefix : kBasePrefixes) {
    if (!name.starts_with(prefix)) continue;
    std::string bare(name.substr(prefix.size()));
    if (file_.tensors().contains(bare)) return bare;
  }
  return plain;
}

TensorView SafetensorsWeights::find(std::string_view name) const {
  const auto found = file_.tensors().find(stored_name(name));
  return found == file_.tensors().end() ? TensorView{} : found->second;
}

std::vector<std::string> SafetensorsWeights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : file_.tensors()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace quire
