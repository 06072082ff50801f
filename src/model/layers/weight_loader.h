// Takes weights by name from a file and packs them for a backend: what every layer's load() does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/layers/weight_matrix.h"
#include "weights/weight_source.h"

namespace quire {

enum class Bias : std::uint8_t { kIfPresent, kRequired, kIgnored };
// Whether quantization at load may touch a matrix: not where few numbers decide much (routers,
// gates, the head).
enum class Precision : std::uint8_t { kMayQuantize, kAsStored };

class WeightLoader {
 public:
  // online_bits: 8 or 4 quantizes plain matrices as they are packed (tensor/quantize.h); 0: not.
  WeightLoader(const WeightSource& weights, Backend& backend, std::int32_t online_bits = 0)
      : weights_(weights), backend_(backend), online_bits_(online_bits) {}

  struct Part {
    std::string name;         // "model.layers.0.self_attn.q_proj": ".weight" and ".bias" are added
    std::int64_t rows = 0;    // outputs that the file has
    bool transposed = false;  // stored [inputs, rows]
    std::vector<std::int64_t> order;  // output i is the file's order[i]; empty: all, as they are
    std::int64_t outputs() const {
      return order.empty() ? rows : static_cast<std::int64_t>(order.size());
    }
  };
  // One Linear of all parts, stacked along the outputs.
  Result<std::unique_ptr<Linear>> linear(const std::vector<Part>& parts, std::int64_t inputs,
                                         Bias bias = Bias::kIfPresent,
                                         Precision precision = Precision::kMayQuantize);
  // Of matrices at hand. biases: f32, one per matrix (each may be empty), or none at all.
  Result<std::unique_ptr<Linear>> pack(const std::vector<WeightMatrix>& matrices,
                                       const std::vector<std::vector<float>>& biases = {},
                                       Precision precision = Precision::kMayQuantize);

  // One matrix per head, for Backend::linear_heads.
  Result<std::unique_ptr<Linear>> pack_heads(const std::vector<WeightMatrix>& matrices);

  // A vector as f32, e.g. a norm's weights.  `name` in full.
  Result<std::vector<float>> vector(const std::string& name, std::int64_t elements);
  // A tensor of any rank as f32, row-major.  `name` in full.
  Result<std::vector<float>> tensor(const std::string& name, const Shape& shape);
  // The same, or an empty vector where the file has none.
  Result<std::vector<float>> optional_tensor(const std::string& name, const Shape& shape);
  // A number that the file has as a tensor of one element of any rank.
  Result<float> scalar(const std::string& name);
  bool has(const std::string& name) const { return !weights_.find(name).empty(); }
  // Number of dimensions; 0 where the file has no such tensor.
  int rank(const std::string& name) const;
  // A tensor that stays in the file: the embedding table, a stack of experts.
  Result<TensorView> view(const std::string& name, const Shape& shape);
  // A matrix of this many columns and any number of rows, in the file.
  Result<TensorView> table(const std::string& name, std::int64_t columns);
  // Its pages may go: all of it has been packed.
  void release(const TensorView& view) { weights_.release_pages(view); }

  // Steps will have products of this many inputs for each row of the step, however they are cut.
  void reserve_inputs(std::int64_t inputs) { backend_.reserve(0, inputs); }
  std::int64_t packed_bytes() const { return packed_bytes_; }

 private:
  Result<WeightMatrix> matrix(const Part& part, std::int64_t inputs, TensorView* source);
  Result<std::vector<float>> bias_of(const Part& part, Bias bias);
  TensorView quantized(const TensorView& matrix, Buffer* storage);

  const WeightSource& weights_;
  Backend& backend_;
  std::int32_t online_bits_;
  std::int64_t packed_bytes_ = 0;
};

}  // namespace quire
