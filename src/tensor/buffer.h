// Owned memory for packed weights, KV cache and workspaces: page-aligned, zero-filled on first
// touch, committed as it is used (anonymous mmap), huge pages advised for large ones. Movable, not
// copyable.
#pragma once

#include <cstddef>
#include <utility>

namespace quire {

class Buffer {
 public:
  Buffer() = default;
  // bytes may be 0. Aborts when the address space is exhausted.
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace quire
