#include "hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/log.h"

namespace quire {

Result<FileLock> FileLock::wait_for(const std::string& path, const std::string& what) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open())
    return make_error(ErrorCode::kInvalidArgument,
                      "the model cache is not writable: {}: {}; choose another with --download-dir "
                      "or HF_HUB_CACHE",
                      path, std::strerror(errno));
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return FileLock(std::move(file));
  log_info("{}: another process is fetching it, waiting", what);
  while (flock(file.get(), LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    // A file system without locks: go on, the blob's final rename is atomic anyway.
    log_warning("{}: cannot be locked: {}", path, std::strerror(errno));
    break;
  }
  return FileLock(std::move(file));
}

bool FileLock::is_held(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file.is_open() && flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace quire
