// Carries one choice's deltas from the output thread to the connection that waits for them. The
// writer never blocks: deltas that nobody has taken yet are merged, up to a byte cap; over it the
// channel overflows and the request is aborted. Thread safe.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>

#include "engine/request.h"

namespace quire {

class OutputChannel {
 public:
  // `wake` is called (on the output thread; it may call take) when the channel turns from empty to
  // not empty. It may still run when the reader has already taken the last delta: what it refers to
  // must live until close() returns.
  explicit OutputChannel(std::function<void()> wake, std::size_t byte_cap = 8u << 20);
  // False when the cap is passed: the caller aborts the request. A delta with `finish` always gets
  // in.
  bool push(OutputDelta delta);
  // What has come since the last call, merged into one delta; nullopt when nothing has.
  std::optional<OutputDelta> take();
  // The reader is gone: later pushes are dropped. Waits for a `wake` that is running on another
  // thread; none comes later. Not to be called with a lock held that `wake` takes.
  void close();
  bool closed() const;

 private:
  mutable std::mutex mutex_;
  std::recursive_mutex wake_mutex_;  // held while wake_ runs; taken before mutex_
  const std::function<void()> wake_;
  std::size_t byte_cap_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
  std::optional<OutputDelta> pending_;
};

}  // namespace quire
