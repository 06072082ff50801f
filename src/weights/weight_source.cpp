#include "weights/weight_source.h"

#include <algorithm>

#include "weights/checked.h"

namespace quire {
namespace {

constexpr std::size_t kMaxListed = 10;

// The same dimensions but for those of size 1, and the rows as they lie when they are of blocks.
bool same_but_for_ones(const TensorView& view, const Shape& wanted) {
  const auto without_ones = [](const Shape& shape) {
    Shape rest;
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] != 1) rest.push_back(shape[i]);
    }
    return rest;
  };
  if (without_ones(view.shape) != without_ones(wanted)) return false;
  if (!is_quantized(view.dtype)) return true;
  return wanted.rank() > 0 && wanted[wanted.rank() - 1] == view.columns();
}

// Tensors that a checkpoint may hold and no text model reads: buffers that are computed, other
// halves of a multimodal model, layers of multi-token prediction.
bool is_harmless(std::string_view name) {
  if (name == "lm_head.weight") return true;  // of a model whose head is the embedding
  constexpr std::string_view kParts[] = {
      "rotary_emb.inv_freq",
      "attn.masked_bias",
      "attn.bias",
      "attention.masked_bias",
      "attention.bias",
      "attention.rotary_emb",
      "vision_tower.",
      "vision_model.",
      "multi_modal_projector.",
      "connector.",
      "visual.",
      "mtp.",
      "nextn.",
  };
  return std::any_of(std::begin(kParts), std::end(kParts), [&](std::string_view part) {
    const std::size_t at = name.find(part);
    if (at == std::string_view::npos) return false;
    // A buffer's name is the whole end: "h.0.attn.bias" is a mask, "self_attn.bias" would not be.
    return part.ends_with('.') || name.size() == at + part.size() || part == "attention.rotary_emb";
  });
}

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size() && i < kMaxListed; ++i) {
    text += (i == 0 ? "" : ", ") + printable(items[i]);
  }
  if (items.size() > kMaxListed) text += fmt::format(" and {} more", items.size() - kMaxListed);
  return text;
}

}  // namespace

Result<TensorView> WeightSource::require(std::string_view name, const Shape& shape) const {
  QUIRE_ASSIGN(TensorView view, optional(name, shape));
  if (view.empty()) view = made_up(name, shape);
  if (view.empty()) {
    return make_error(ErrorCode::kBadFile, "the model has no tensor \"{}\" {}", printable(name),
                      shape.to_string());
  }
  return view;
}

Result<TensorView> WeightSource::optional(std::string_view name, const Shape& shape) const {
  TensorView view = find(name);
  if (view.empty()) return view;
  if (view.shape != shape) {
    if (!same_but_for_ones(view, shape)) {
      return make_error(ErrorCode::kBadFile,
                        "tensor \"{}\" has shape {}, the model's configuration needs {}",
                        printable(name), view.shape.to_string(), shape.to_string());
    }
    view.shape = shape;
  }
  const std::string stored = stored_name(name);
  {
    const std::lock_guard lock(used_mutex_);
    used_.insert(stored);
  }
  return with_data(stored, view);
}

std::vector<std::string> WeightSource::unused_names() const {
  std::vector<std::string> unused = names();
  const std::lock_guard lock(used_mutex_);
  std::erase_if(unused, [&](const std::string& name) { return used_.contains(name); });
  std::sort(unused.begin(), unused.end());
  return unused;
}

Status WeightSource::check_all_used() const {
  std::vector<std::string> left = unused_names();
  std::erase_if(left, [&](const std::string& name) { return is_harmless(name); });
  if (left.empty()) return {};
  return make_error(ErrorCode::kBadFile, "{} tensors of the file are not part of the model: {}",
                    left.size(), list_of(left));
}

Status WeightSource::check_tensors(std::span<const ExpectedTensor> expected) const {
  std::vector<std::string> missing, wrong;
  for (const ExpectedTensor& each : expected) {
    const TensorView view = find(each.name);
    if (view.empty()) {
      if (!each.optional) missing.push_back(each.name + " " + each.shape.to_string());
    } else if (view.shape != each.shape && !same_but_for_ones(view, each.shape)) {
      wrong.push_back(fmt::format("{} {} instead of {}", each.name, view.shape.to_string(),
                                  each.shape.to_string()));
    }
  }
  if (missing.empty() && wrong.empty()) return {};
  std::string text;
  if (!missing.empty())
    text = fmt::format("{} tensors are missing: {}", missing.size(), list_of(missing));
  if (!wrong.empty()) {
    text += fmt::format("{}{} tensors have another shape than the configuration says: {}",
                        text.empty() ? "" : "; ", wrong.size(), list_of(wrong));
  }
  return make_error(ErrorCode::kBadFile, "{}", text);
}

}  // namespace quire
