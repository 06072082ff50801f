#include "weights/weight_source.h"

#include <algorithm>

#include "weights/checked.h"

namespace quire {

Result<TensorView> WeightSource::require(std::string_view name, const Shape& shape) const {
  QUIRE_ASSIGN(const TensorView view, optional(name, shape));
  if (view.empty()) {
    return make_error(ErrorCode::kBadFile, "the model has no tensor \"{}\" {}", printable(name),
                      shape.to_string());
  }
  return view;
}

Result<TensorView> WeightSource::optional(std::string_view name, const Shape& shape) const {
  const TensorView view = find(name);
  if (view.empty()) return view;
  if (view.shape != shape) {
    return make_error(ErrorCode::kBadFile,
                      "tensor \"{}\" has shape {}, the model's configuration needs {}",
                      printable(name), view.shape.to_string(), shape.to_string());
  }
  const std::lock_guard lock(used_mutex_);
  used_.emplace(name);
  return view;
}

std::vector<std::string> WeightSource::unused_names() const {
  std::vector<std::string> unused = names();
  const std::lock_guard lock(used_mutex_);
  std::erase_if(unused, [&](const std::string& name) { return used_.contains(name); });
  std::sort(unused.begin(), unused.end());
  return unused;
}

}  // namespace quire
