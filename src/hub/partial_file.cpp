#include "hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/check.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kRecordBytes = 4 << 20;  // a range's count is written down every so often
constexpr int kLineBytes = 17;                  // 16 digits and a line feed

// Writes all of it at the offset; 0, or errno.
int write_at(int fd, std::span<const char> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
  return 0;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> chunk{};
  ssize_t got = 0;
  while ((got = pread(fd, chunk.data(), chunk.size(), static_cast<off_t>(text.size()))) > 0)
    text.append(chunk.data(), static_cast<std::size_t>(got));
  return text;
}

}  // namespace

std::int64_t free_bytes(const std::string& folder) {
  struct statvfs status = {};
  if (statvfs(folder.c_str(), &status) != 0) return INT64_MAX;
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return value < 9.995 ? fmt::format("{:.2f} {}", value, kUnits[unit])
                       : fmt::format("{:.{}f} {}", value, value < 99.95 ? 1 : 0, kUnits[unit]);
}

Result<PartialFile> PartialFile::open(const std::string& blob_path, std::int64_t size,
                                      std::int64_t range_bytes, const std::string& what) {
  PartialFile partial;
  partial.what_ = what;
  const bool is_split = size > 2 * range_bytes;
  partial.path_ = blob_path + (is_split ? ".ranges.incomplete" : ".incomplete");
  partial.file_ = FileDescriptor(::open(partial.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!partial.file_.is_open()) return partial.write_error(errno, size);
  if (is_split) {
    partial.ranges_path_ = blob_path + ".ranges";
    QUIRE_TRY(partial.open_ranges(size, range_bytes));
    return partial;
  }
  struct stat status = {};
  fstat(partial.file_.get(), &status);
  Range whole{0, size, status.st_size, 0};
  if (whole.done > size) {  // not of this content
    if (ftruncate(partial.file_.get(), 0) != 0) return partial.write_error(errno, size);
    whole.done = 0;
  }
  partial.ranges_.push_back(whole);
  return partial;
}

Status PartialFile::open_ranges(std::int64_t size, std::int64_t range_bytes) {
  ranges_file_ = FileDescriptor(::open(ranges_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!ranges_file_.is_open()) return write_error(errno, size);
  for (std::int64_t begin = 0; begin < size; begin += range_bytes)
    ranges_.push_back({begin, std::min(begin + range_bytes, size), 0, 0});

  const std::string head = fmt::format("{:016}\n{:016}\n", size, range_bytes);
  const std::string text = read_all(ranges_file_.get());
  if (text.starts_with(head) && text.size() == head.size() + ranges_.size() * kLineBytes) {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const std::int64_t done =
          std::strtoll(text.c_str() + head.size() + i * kLineBytes, nullptr, 10);
      ranges_[i].done = ranges_[i].recorded =
          std::clamp<std::int64_t>(done, 0, ranges_[i].end - ranges_[i].begin);
    }
    return {};
  }
  std::string fresh = head;
  for (std::size_t i = 0; i < ranges_.size(); ++i) fresh += fmt::format("{:016}\n", 0);
  if (ftruncate(file_.get(), 0) != 0) return write_error(errno, size);
  if (const int error = write_at(ranges_file_.get(), fresh, 0)) return write_error(error, size);
  if (ftruncate(ranges_file_.get(), static_cast<off_t>(fresh.size())) != 0)
    return write_error(errno, size);
  return {};
}

std::int64_t PartialFile::done_bytes() const {
  std::int64_t sum = 0;
  for (const Range& range : ranges_) sum += range.done;
  return sum;
}

tl::unexpected<Error> PartialFile::write_error(int error_number, std::int64_t missing) const {
  const std::string folder = fs::path(path_).parent_path().string();
  if (error_number == ENOSPC || error_number == EDQUOT)
    return make_error(ErrorCode::kInternal,
                      "{}: the disk is full: {} more are needed in {}, {} are free; make room and "
                      "run it again (what is "
                      "there is kept), or choose another disk with --download-dir",
                      what_, format_bytes(missing), folder, format_bytes(free_bytes(folder)));
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: the model cache is not writable: {}: {}; choose another with "
                    "--download-dir or HF_HUB_CACHE",
                    what_, path_, std::strerror(error_number));
}

Status PartialFile::write(int index, std::span<const char> bytes) {
  Range& range = ranges_[static_cast<std::size_t>(index)];
  const std::int64_t count = static_cast<std::int64_t>(bytes.size());
  QUIRE_CHECK(range.begin + range.done + count <= range.end, "range {} of {} is overrun", index,
              path_);
  if (const int error = write_at(file_.get(), bytes, range.begin + range.done))
    return write_error(error, range.end - range.begin - range.done);
  range.done += count;
  if (range.done - range.recorded >= kRecordBytes || range.done == range.end - range.begin)
    return record(index);
  return {};
}

Status PartialFile::record(int index) {
  if (ranges_path_.empty()) return {};
  Range& range = ranges_[static_cast<std::size_t>(index)];
  const std::string line = fmt::format("{:016}\n", range.done);
  if (const int error = write_at(ranges_file_.get(), line, (index + 2LL) * kLineBytes))
    return write_error(error, range.end - range.begin - range.done);
  range.recorded = range.done;
  return {};
}

Status PartialFile::install(const std::string& blob_path) {
  std::error_code error;
  fs::rename(path_, blob_path, error);
  if (error) return write_error(error.value(), 0);
  if (!ranges_path_.empty()) fs::remove(ranges_path_, error);
  return {};
}

void PartialFile::discard() {
  std::error_code ignored;
  fs::remove(path_, ignored);
  if (!ranges_path_.empty()) fs::remove(ranges_path_, ignored);
}

}  // namespace quire
