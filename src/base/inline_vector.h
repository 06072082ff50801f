// A vector whose first N elements need no memory of their own: for lists that nearly always hold
// one or two small things.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace quire {

template <class T, std::size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  InlineVector(std::initializer_list<T> from) : InlineVector(std::vector<T>(from)) {}
  InlineVector(std::vector<T> from) : many_(std::move(from)), size_(many_.size()) {  // NOLINT
    if (size_ > 0 && size_ <= N) move_inline();
  }

  void push_back(const T& value) {
    if (size_ < N) {
      few_[size_] = value;
    } else {
      if (many_.empty()) many_.assign(few_.begin(), few_.end());
      many_.push_back(value);
    }
    ++size_;
  }
  void clear() {
    many_.clear();
    size_ = 0;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return many_.empty() ? few_.data() : many_.data(); }
  const T* end() const { return begin() + size_; }
  const T& operator[](std::size_t i) const { return begin()[i]; }
  const T& front() const { return begin()[0]; }
  const T& back() const { return begin()[size_ - 1]; }

 private:
  void move_inline() {
    for (std::size_t i = 0; i < size_; ++i) few_[i] = many_[i];
    many_.clear();
  }

  std::array<T, N> few_{};
  std::vector<T> many_;  // all of them when there are more than N, else empty
  std::size_t size_ = 0;
};

}  // namespace quire
