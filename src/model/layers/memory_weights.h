// Weights without a file, for tests: random numbers, given ones, bytes that lie elsewhere, or
// shapes alone.
#pragma once

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weights/weight_source.h"

namespace quire::testing_support {

class MemoryWeights final : public WeightSource {
 public:
  void add(const std::string& name, const Shape& shape, float scale = 0.3f) {
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (float& v : values) v = normal(random_);
    set(name, shape, std::move(values));
  }
  void set(const std::string& name, const Shape& shape, std::vector<float> values) {
    values_[name] = std::move(values);
    borrow(name, DType::kF32, shape, values_[name].data());
  }
  // data: outlives this, or is never read (tests of names and shapes).
  void borrow(const std::string& name, DType dtype, const Shape& shape, const void* data) {
    views_[name] = {static_cast<const std::byte*>(data), dtype, shape};
  }
  void set_shape(const std::string& name, const Shape& shape) {
    borrow(name, DType::kF32, shape, this);
  }
  const std::vector<float>& values(const std::string& name) const { return values_.at(name); }
  bool contains(const std::string& name) const { return views_.contains(name); }
  std::size_t size() const { return views_.size(); }
  void erase(const std::string& name) {
    views_.erase(name);
    values_.erase(name);
  }

  TensorView find(std::string_view name) const override {
    const auto found = views_.find(name);
    return found == views_.end() ? TensorView() : found->second;
  }
  void release_pages(const TensorView& /*view*/) const override {}
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, view] : views_) all.push_back(name);
    return all;
  }
  bool permuted_qk() const override { return false; }

 private:
  std::mt19937 random_{7};
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, TensorView, std::less<>> views_;
};

}  // namespace quire::testing_support
