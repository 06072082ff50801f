// Pieces of one operation's work. Every thread has a share of its own, so that it reads the same
// weights step after step, and takes pieces of it from the front; one that is through goes on with
// what is left of the others'. A core that a neighbour slows down (a virtual CPU beside a busy one)
// keeps nobody waiting for more than a piece. Which thread has which piece never shows in a result.
#pragma once

#include <atomic>
#include <vector>

namespace quire {

class WorkShares {
 public:
  explicit WorkShares(int threads) : next_(static_cast<std::size_t>(threads)) {}

  // By one thread, before the others begin to take.
  void start() {
    for (Next& next : next_) next.piece.store(0, std::memory_order_relaxed);
  }
  // Calls fn(owner, piece) until no thread's share has any of its pieces [0, pieces) left.
  template <class Fn>
  void take(int thread, int pieces, const Fn& fn) {
    const int threads = static_cast<int>(next_.size());
    for (int i = 0; i < threads; ++i) {
      const int owner = (thread + i) % threads;
      std::atomic<int>& next = next_[static_cast<std::size_t>(owner)].piece;
      while (true) {
        const int piece = next.fetch_add(1, std::memory_order_relaxed);
        if (piece >= pieces) break;
        fn(owner, piece);
      }
    }
  }

 private:
  struct alignas(64) Next {
    std::atomic<int> piece{0};
  };
  std::vector<Next> next_;
};

}  // namespace quire
