#include "tensor/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

namespace quire {
namespace {

constexpr std::size_t kHugePage = 2u << 20;

// A mapping that begins at a huge page: of one that begins anywhere, most of the first and the last
// would be small pages, a quarter of a layer's weights. MAP_FAILED: no address space is left.
void* map_aligned(std::size_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const std::size_t slack = bytes >= kHugePage && bytes <= SIZE_MAX / 2 ? kHugePage : 0;
  void* const start = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (start == MAP_FAILED || slack == 0) return start;
  auto* const begin = static_cast<std::byte*>(start);
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(start) % kHugePage;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = head + (bytes + page - 1) / page * page;
  if (head > 0) munmap(begin, head);
  if (used < bytes + slack) munmap(begin + used, bytes + slack - used);
  return begin + head;
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* p = map_aligned(bytes);
  QUIRE_CHECK(p != MAP_FAILED, "cannot reserve {} bytes of memory", bytes);
  data_ = static_cast<std::byte*>(p);
  if (bytes >= kHugePage) madvise(p, bytes, MADV_HUGEPAGE);  // advice only
}

Buffer::~Buffer() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace quire
