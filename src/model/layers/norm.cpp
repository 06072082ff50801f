#include "model/layers/norm.h"

#include <utility>

namespace quire {
namespace {

// "<name>.weight" [heads, head_dim] (or flat), or one vector for each head:
// "<name>.norms.<h>.weight" (StableLM).
Result<std::vector<float>> own_weights_of(WeightLoader& loader, const std::string& name,
                                          std::int64_t heads, std::int64_t head_dim) {
  if (loader.has(name + ".weight")) return loader.tensor(name + ".weight", Shape{heads, head_dim});
  std::vector<float> all;
  for (std::int64_t h = 0; h < heads; ++h) {
    QUIRE_ASSIGN(const std::vector<float> one,
                 loader.vector(name + ".norms." + std::to_string(h) + ".weight", head_dim));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace

Result<Norm> Norm::load(WeightLoader& loader, const std::string& prefix, const NormSpec& spec,
                        std::int64_t n) {
  return load_heads(loader, prefix, spec, 1, n, false);
}

Result<Norm> Norm::load_heads(WeightLoader& loader, const std::string& prefix, const NormSpec& spec,
                              std::int64_t heads, std::int64_t head_dim, bool own_weights) {
  Norm norm;
  norm.kind = spec.kind;
  norm.eps = spec.eps;
  norm.n = head_dim;
  norm.groups = heads;
  norm.own_weights = own_weights;
  if (norm.none()) return norm;
  const std::int64_t elements = own_weights ? heads * head_dim : head_dim;
  const std::string name = prefix + spec.name;
  if (spec.name.empty()) {
    norm.weight.assign(static_cast<std::size_t>(elements), 1.0f);
    return norm;
  }
  Result<std::vector<float>> weight = own_weights ? own_weights_of(loader, name, heads, head_dim)
                                                  : loader.vector(name + ".weight", head_dim);
  if (!weight) return tl::unexpected(weight.error());
  norm.weight = std::move(*weight);
  for (float& w : norm.weight) w += spec.offset;
  if (spec.bias) {
    QUIRE_ASSIGN(norm.bias, loader.vector(name + ".bias", elements));
  }
  return norm;
}

void Norm::forward(Backend& backend, const float* x, std::int64_t rows, float* y,
                   std::int64_t x_stride, std::int64_t y_stride) const {
  NormArgs args;
  args.kind = kind;
  args.eps = eps;
  args.weight = weight.data();
  args.bias = bias.empty() ? nullptr : bias.data();
  args.own_weights = own_weights;
  args.n = n;
  args.groups = groups;
  args.x_stride = x_stride;
  args.y_stride = y_stride;
  backend.norm(args, x, rows, y);
}

}  // namespace quire
