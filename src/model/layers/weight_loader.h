// Takes weights by name from a file and packs them for a backend: what every architecture's constructor does.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "weights/weight_source.h"

namespace quire {

class WeightLoader {
 public:
  WeightLoader(const WeightSource& weights, Backend& backend) : weights_(weights), backend_(backend) {}

  struct Part {
    std::string name;        // "model.layers.0.self_attn.q_proj": ".weight" and ".bias" are added
    std::int64_t outputs;
  };
  // One Linear of all parts, stacked along the outputs. A bias is taken where the file has one; `require_bias` makes a
  // missing one an error.
  Result<std::unique_ptr<Linear>> linear(const std::vector<Part>& parts, std::int64_t inputs, bool require_bias = false);
  // A vector as f32, e.g. a norm's weights.  `name` in full.
  Result<std::vector<float>> vector(const std::string& name, std::int64_t elements);
  // A tensor of any rank as f32, row-major.  `name` in full.
  Result<std::vector<float>> tensor(const std::string& name, const Shape& shape);
  // The same, or an empty vector where the file has none.
  Result<std::vector<float>> optional_tensor(const std::string& name, const Shape& shape);
  bool has(const std::string& name) const { return !weights_.find(name).empty(); }
  // A matrix that stays in the file: the embedding table.
  Result<TensorView> matrix(const std::string& name, std::int64_t rows, std::int64_t columns);

  std::int64_t packed_bytes() const { return packed_bytes_; }

 private:
  const WeightSource& weights_;
  Backend& backend_;
  std::int64_t packed_bytes_ = 0;
};

}  // namespace quire
