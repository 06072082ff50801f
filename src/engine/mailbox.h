// Carries messages to one thread, in order, without a bound: what is in it is bounded by the
// requests that are alive. Thread safe; one reader.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace quire {

template <class T>
class Mailbox {
 public:
  // False when closed: the message is dropped.
  bool push(T message) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      messages_.push_back(std::move(message));
    }
    ready_.notify_one();
    return true;
  }
  // What is there now, oldest first.
  std::vector<T> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }
  // Sleeps until something is there; empty only when closed and everything was taken.
  std::vector<T> wait() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return closed_ || !messages_.empty(); });
    return std::exchange(messages_, {});
  }
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<T> messages_;
  bool closed_ = false;
};

}  // namespace quire
