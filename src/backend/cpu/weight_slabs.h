// Where packed weights lie: one after the other in slabs of huge pages, in the order in which they
// are packed. Matrices with mappings of their own would have small pages at their ends, or
// nothing else where they are smaller than a huge page, and a product of few rows, which reads each
// weight once, would wait for the page tables. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/buffer.h"

namespace quire {

// Bytes of a slab, which lives as long as anything in it.
class SlabBytes {
 public:
  SlabBytes() = default;
  SlabBytes(std::shared_ptr<Buffer> slab, std::size_t at) : slab_(std::move(slab)), at_(at) {}
  std::byte* data() { return slab_->data() + at_; }
  const std::byte* data() const { return slab_->data() + at_; }

 private:
  std::shared_ptr<Buffer> slab_;
  std::size_t at_ = 0;
};

class WeightSlabs {
 public:
  // Zero-filled, at a cache line.
  SlabBytes take(std::size_t bytes) {
    const std::size_t rounded = (bytes + kLine - 1) / kLine * kLine;
    if (rounded > kSlab / 2) return {std::make_shared<Buffer>(rounded), 0};
    if (slab_ == nullptr || rounded > slab_->size() - used_) {
      slab_ = std::make_shared<Buffer>(kSlab);
      used_ = 0;
    }
    used_ += rounded;
    return {slab_, used_ - rounded};
  }

 private:
  static constexpr std::size_t kLine = 64;
  // Address space; what is never packed is never committed, but for a part of the last huge page.
  static constexpr std::size_t kSlab = std::size_t{256} << 20;
  std::shared_ptr<Buffer> slab_;
  std::size_t used_ = 0;
};

}  // namespace quire
