// A lock between processes on a file beside the cache (flock, as huggingface_hub's): who holds it
// fetches the blob of that name. It is let go when the object dies, or the process.
#pragma once

#include <string>

#include "base/result.h"
#include "hub/file_descriptor.h"

namespace quire {

class FileLock {
 public:
  // Waits for another holder, after one log line that says so. Makes the folders and the file.
  static Result<FileLock> wait_for(const std::string& path, const std::string& what);
  // True when somebody holds the lock now. A file that is not there is free.
  static bool is_held(const std::string& path);

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

}  // namespace quire
