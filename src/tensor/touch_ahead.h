// Memory that is touched for the first time is got from the kernel page by page, and from a virtual
// machine's host at 1 GB/s or less: milliseconds for each huge page, in the middle of a step. So a
// thread of low priority touches a buffer that fills from its beginning somewhat ahead of its use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "tensor/buffer.h"

namespace quire {

class TouchAhead {
 public:
  // Keeps `ahead` bytes of the buffer, which outlives this, touched beyond what is used; nothing
  // before something is, and nothing where `ahead` is less than a huge page.
  TouchAhead(const Buffer& buffer, std::size_t ahead);
  ~TouchAhead();
  TouchAhead(const TouchAhead&) = delete;
  TouchAhead& operator=(const TouchAhead&) = delete;

  // Bytes before `end` are used. Any thread, also several at once; wakes the other thread only when
  // a huge page is due.
  void used(std::size_t end);
  // All of the buffer, by the caller; before anything is used.
  void touch_all();
  // Until all that is due is touched; how many bytes are. For tests.
  std::size_t settle();

 private:
  void run();
  std::size_t due() const;

  std::byte* const data_;
  const std::size_t bytes_, ahead_;
  std::atomic<std::size_t> used_{0};
  // Bytes at the beginning; written by the thread, or touch_all().
  std::atomic<std::size_t> touched_{0};
  // Count changes, and are waited for. No mutex: who waited for one would wait for this thread's
  // turn on a CPU.
  std::atomic<std::uint32_t> wanted_{0};    // used_, stop_
  std::atomic<std::uint32_t> progress_{0};  // touched_
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace quire
