// Step scratch memory: a bump allocator over memory reserved once. reset() at the start of each
// step; nothing is allocated from the system in a step. Owned by the ModelRunner, used on the
// engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/buffer.h"

namespace quire {

class Workspace {
 public:
  explicit Workspace(std::size_t bytes) : buffer_(bytes) {}
  // Uninitialised, 64-byte aligned, valid until reset() or release_to().
  template <class T>
  T* take(std::int64_t count) {
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    QUIRE_CHECK(used_ + bytes <= buffer_.size(), "workspace of {} bytes is too small for {} more",
                buffer_.size(), bytes);
    T* p = reinterpret_cast<T*>(buffer_.data() + used_);
    used_ += bytes;
    return p;
  }
  std::size_t mark() const { return used_; }
  void release_to(std::size_t mark) { used_ = mark; }
  void reset() { used_ = 0; }

 private:
  Buffer buffer_;
  std::size_t used_ = 0;
};

}  // namespace quire
