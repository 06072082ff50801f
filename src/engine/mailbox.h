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
  Mailbox() { messages_.reserve(kRoom); }
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
  // What is there now, oldest first, into `messages`, whose memory is used for those that come.
  void take(std::vector<T>& messages) {
    make_empty(messages);
    std::lock_guard lock(mutex_);
    messages_.swap(messages);
  }
  // The same; sleeps until something is there: empty only when closed and everything was taken.
  void wait(std::vector<T>& messages) {
    make_empty(messages);
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return closed_ || !messages_.empty(); });
    messages_.swap(messages);
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
  static constexpr std::size_t kRoom = 16;  // messages that need no allocation
  static void make_empty(std::vector<T>& messages) {
    messages.clear();
    messages.reserve(kRoom);
  }

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<T> messages_;
  bool closed_ = false;
};

}  // namespace quire
