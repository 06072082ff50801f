// For tests and benchmarks that show that nothing is allocated: replaces the global operators new
// and delete and counts. Include it in one file of a program, which it holds for.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace quire::allocation_count {
inline thread_local std::int64_t of_this_thread = 0;
inline std::atomic<std::int64_t> of_all_threads{0};
inline void* allocate(std::size_t size) noexcept {
  ++of_this_thread;
  of_all_threads.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
}  // namespace quire::allocation_count

// NOLINTBEGIN: replacements of the global operators; not inlined, or GCC sees free meet a new
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = quire::allocation_count::allocate(size)) return memory;
  throw std::bad_alloc();
}
// Of stable_sort, for one. AddressSanitizer's own would meet the free() below.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return quire::allocation_count::allocate(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND
