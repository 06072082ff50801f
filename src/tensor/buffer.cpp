#include "tensor/buffer.h"

#include <sys/mman.h>

#include "base/check.h"

namespace quire {
namespace {
constexpr std::size_t kHugePage = 2u << 20;
}

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  QUIRE_CHECK(p != MAP_FAILED, "cannot reserve {} bytes of memory", bytes);
  data_ = static_cast<std::byte*>(p);
  if (bytes >= kHugePage) madvise(p, bytes, MADV_HUGEPAGE);  // advice only
}

Buffer::~Buffer() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace quire
