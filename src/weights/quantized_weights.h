// The weights of a Hugging Face folder whose layers are quantized: under the names and shapes of a
// plain checkpoint, each converted when it is asked for (require, optional) and gone again when its
// pages are released. Any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/cpu_topology.h"
#include "weights/quant_tensor.h"
#include "weights/safetensors_weights.h"

namespace quire {

class QuantizedWeights final : public SafetensorsWeights {
 public:
  static Result<std::unique_ptr<QuantizedWeights>> create(SafetensorsFile file,
                                                          const QuantConfig& config);
  void release_pages(const TensorView& view) const override;

 protected:
  TensorView with_data(const std::string& stored, const TensorView& view) const override;

 private:
  explicit QuantizedWeights(SafetensorsFile file)
      : SafetensorsWeights(std::move(file)), threads_(read_cpu_topology().usable_threads) {}

  struct Converted {
    const QuantTensor* tensor;
    Buffer data;
  };
  const int threads_;  // that convert one tensor
  std::unordered_map<std::string, QuantTensor> quantized_;
  mutable std::mutex mutex_;
  mutable std::map<const std::byte*, Converted> converted_;  // by data; guarded by mutex_
};

}  // namespace quire
