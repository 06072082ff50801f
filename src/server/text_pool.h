// Threads for what would hold up an io thread: parsing bodies, rendering templates, tokenizing.
// Bounded: a full queue is pressure, which the caller turns into 503.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"

namespace quire {

class TextPool {
 public:
  // niceness: 0 to 19, how much the threads stand back behind others.
  TextPool(int num_threads, std::size_t queue_length, int niceness = 0);
  ~TextPool();  // stop()
  // False when the queue is full or the pool has stopped.
  bool submit(std::function<void()> task);
  // Runs what is queued, then joins. Idempotent.
  void stop();

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace quire
