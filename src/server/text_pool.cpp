#include "server/text_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace quire {

TextPool::TextPool(int num_threads, std::size_t queue_length, int niceness) : queue_(queue_length) {
  for (int i = 0; i < std::max(1, num_threads); ++i) {
    threads_.emplace_back([this, niceness] {
      // Linux keeps it per thread, and hands it on to the threads that this one starts.
      if (niceness > 0) setpriority(PRIO_PROCESS, 0, niceness);
      while (auto task = queue_.pop()) (*task)();
    });
  }
}

TextPool::~TextPool() { stop(); }

bool TextPool::submit(std::function<void()> task) { return queue_.try_push(std::move(task)); }

void TextPool::stop() {
  queue_.close();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace quire
