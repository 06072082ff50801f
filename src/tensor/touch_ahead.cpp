#include "tensor/touch_ahead.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>

namespace quire {
namespace {

constexpr std::size_t kTouchedPiece = 2u << 20;  // a huge page
constexpr std::size_t kSmallPage = 4096;

// A write that changes nothing, whoever writes there at the same time: no race that matters, but
// one by the letter. Not madvise(MADV_POPULATE_WRITE): it holds the lock of the whole address
// space, and a thread of low priority that is put off the CPU meanwhile stops every other one that
// maps memory (likely seen: 0.7 s).
__attribute__((no_sanitize("thread"))) void touch(std::byte* p) {
  unsigned char zero = 0;
  __atomic_compare_exchange_n(reinterpret_cast<unsigned char*>(p), &zero, 0, false,
                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// Whether a page fault locks its own mapping only (Linux 6.4 and later). Before, it holds the lock
// of the whole address space while it clears a page: a thread must not be put off for long then.
bool faults_lock_one_mapping() {
  utsname system{};
  int major = 0, minor = 0;
  if (uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2)
    return false;
  return major > 6 || (major == 6 && minor >= 4);
}

void lower_own_priority() {
  constexpr int kNice = 10;
  const sched_param none{};
  if (faults_lock_one_mapping() && sched_setscheduler(0, SCHED_IDLE, &none) == 0) return;
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread, on Linux
}

}  // namespace

TouchAhead::TouchAhead(const Buffer& buffer, std::size_t ahead)
    : data_(const_cast<std::byte*>(buffer.data())), bytes_(buffer.size()), ahead_(ahead) {
  if (bytes_ > 0 && ahead_ >= kTouchedPiece) thread_ = std::thread([this] { run(); });
}

TouchAhead::~TouchAhead() {
  if (!thread_.joinable()) return;
  stop_ = true;
  ++wanted_;
  wanted_.notify_one();
  thread_.join();
}

// How far the buffer is to be touched: whole pieces, or its end.
std::size_t TouchAhead::due() const {
  const std::size_t used = used_;
  if (used == 0) return 0;
  const std::size_t left = bytes_ - used;
  return left <= ahead_ ? bytes_ : used + ahead_ - (used + ahead_) % kTouchedPiece;
}

void TouchAhead::used(std::size_t end) {
  end = std::min(end, bytes_);
  std::size_t before = used_;
  while (before < end && !used_.compare_exchange_weak(before, end)) {
  }
  if (before >= end || due() <= touched_) return;
  ++wanted_;
  wanted_.notify_one();
}

void TouchAhead::touch_all() {
  for (std::size_t at = 0; at < bytes_; at += kSmallPage) touch(data_ + at);
  touched_ = bytes_;
}

std::size_t TouchAhead::settle() {
  while (thread_.joinable()) {
    const std::uint32_t seen = progress_;
    if (touched_ >= due()) break;
    progress_.wait(seen);
  }
  return touched_;
}

void TouchAhead::run() {
  pthread_setname_np(pthread_self(), "touch");
  lower_own_priority();
  for (;;) {
    const std::uint32_t seen = wanted_;
    if (stop_) return;
    if (touched_ >= due()) {
      wanted_.wait(seen);
      continue;
    }
    // What is used already was touched by who used it.
    const std::size_t used = used_;
    const std::size_t from = std::max<std::size_t>(touched_, used - used % kTouchedPiece);
    const std::size_t end = std::min(from + kTouchedPiece, bytes_);
    for (std::size_t at = from; at < end; at += kSmallPage) touch(data_ + at);
    touched_ = end;
    ++progress_;
    progress_.notify_all();
  }
}

}  // namespace quire
