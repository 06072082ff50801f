#include "weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace quire {

Result<std::shared_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  // Nonblocking: a named pipe is refused below instead of waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kBadFile;
    return make_error(code, "{}: cannot open: {}", path, std::strerror(errno));
  }
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode) || info.st_size <= 0) {
    ::close(fd);
    return make_error(ErrorCode::kBadFile, "{}: {}", path,
                      known && S_ISREG(info.st_mode) ? "the file is empty; download it again"
                                                     : "not a regular file");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int map_errno = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    return make_error(ErrorCode::kBadFile, "{}: cannot map {} bytes: {}", path, size,
                      std::strerror(map_errno));
  }
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(data_), size_); }

void MappedFile::release(const std::byte* begin, std::size_t count) const {
  QUIRE_CHECK(begin >= data_ && begin + count <= data_ + size_);
  // Only whole pages: a neighbour tensor may still need the shared ones. The mapping begins with
  // one.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(begin - data_);
  const std::size_t first = (offset + page - 1) / page * page;
  const std::size_t last = (offset + count) / page * page;
  if (first < last) ::madvise(const_cast<std::byte*>(data_ + first), last - first, MADV_DONTNEED);
}

}  // namespace quire
