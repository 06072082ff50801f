// A blob while it is fetched: what is there survives the process and is gone on with.
//
// A small file grows in BLOB.incomplete from its front (as huggingface_hub's does); its size is
// what is there. A large one is fetched in ranges at once: BLOB.ranges.incomplete, and beside it
// BLOB.ranges with the count of bytes that each range has. Each range belongs to one thread at a
// time; different ranges may be written at once. The holder of the blob's lock owns both files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/file_descriptor.h"

namespace quire {

class PartialFile {
 public:
  struct Range {
    std::int64_t begin = 0, end = 0;
    std::int64_t done = 0;      // bytes from begin that are there
    std::int64_t recorded = 0;  // of these, what the ranges file says
  };

  // range_bytes: files longer than two of these are split. what: the file's name in messages.
  static Result<PartialFile> open(const std::string& blob_path, std::int64_t size,
                                  std::int64_t range_bytes, const std::string& what);

  int num_ranges() const { return static_cast<int>(ranges_.size()); }
  const Range& range(int index) const { return ranges_[static_cast<std::size_t>(index)]; }
  std::int64_t size() const { return ranges_.back().end; }
  std::int64_t done_bytes() const;
  const std::string& path() const { return path_; }

  // Adds bytes to the end of what the range has. An error keeps what is there.
  Status write(int index, std::span<const char> bytes);
  Status record(int index);  // the range's count into the ranges file
  // The file is whole: moves it to its blob's place.
  Status install(const std::string& blob_path);
  void discard();  // it is damaged: removes it

 private:
  Status open_ranges(std::int64_t size, std::int64_t range_bytes);
  tl::unexpected<Error> write_error(int error_number, std::int64_t missing) const;

  std::string what_, path_, ranges_path_;  // ranges_path_ is empty without ranges
  FileDescriptor file_, ranges_file_;
  std::vector<Range> ranges_;
};

// Bytes that a file system has free for this process.
std::int64_t free_bytes(const std::string& folder);
// "12.3 MB", in powers of 1000 as the hub counts.
std::string format_bytes(std::int64_t bytes);

}  // namespace quire
