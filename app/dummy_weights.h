// Weights that are made up: for trying a configuration's shapes without a checkpoint (--load-format
// dummy). Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/buffer.h"
#include "weights/weight_source.h"

namespace quire {

// Every tensor that the configuration's model needs, in the configuration's dtype (f32, f16, else
// bf16). Values are nearly normal, with deviation 0.02 and mean 0 (vectors called "...norm.weight":
// mean 1), the same for the same seed on every machine. Tensors of a kind are windows on one pool
// of numbers, each beginning where its name says, so that a model of any size costs the memory of
// its largest tensor. Tensors of recurrent layers are made when they are asked for: they stand
// neither in names() nor in total_bytes().
class DummyWeights : public WeightSource {
 public:
  // An error for an architecture that isn't known.
  static Result<std::unique_ptr<DummyWeights>> create(const ModelConfig& config,
                                                      std::uint64_t seed);

  TensorView find(std::string_view name) const override;
  void release_pages(const TensorView&) const override {}
  std::vector<std::string> names() const override;
  bool permuted_qk() const override { return false; }
  // What a file with these tensors would hold.
  std::uint64_t total_bytes() const { return total_bytes_; }

 protected:
  TensorView made_up(std::string_view name, const Shape& shape) const override;

 private:
  DummyWeights(std::vector<ExpectedTensor> tensors, DType dtype, std::uint64_t seed);

  DType dtype_;
  std::map<std::string, Shape, std::less<>> shapes_;
  Buffer around_zero_, around_one_;
  bool has_recurrent_layers_ = false;
  const std::uint64_t seed_;
  mutable std::mutex mutex_;            // guards what follows
  mutable std::vector<Buffer> larger_;  // pools for tensors that are larger than those listed
  std::uint64_t total_bytes_ = 0;
};

}  // namespace quire
