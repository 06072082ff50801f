#include "hub/range_sink.h"

#include <algorithm>
#include <charconv>

namespace quire {
namespace {

// The first byte that a 206 brings, of "bytes 5-9/10"; -1: not understood.
std::int64_t first_byte_of(const std::string& content_range) {
  constexpr std::string_view kUnit = "bytes ";
  if (!content_range.starts_with(kUnit)) return -1;
  std::int64_t first = -1;
  const char* begin = content_range.data() + kUnit.size();
  const char* text_end = content_range.data() + content_range.size();
  const auto [end, error] = std::from_chars(begin, text_end, first);
  return error == std::errc{} && end != text_end && *end == '-' ? first : -1;
}

// Bytes of the whole file, as the answer tells; -1: it does not.
std::int64_t total_of(const HttpReply& reply) {
  std::string text = reply.header("content-length");
  if (reply.status == 206) {
    const std::string range = reply.header("content-range");
    text = range.substr(range.find('/') + 1);
  }
  std::int64_t total = -1;
  std::from_chars(text.data(), text.data() + text.size(), total);
  return total;
}

}  // namespace

RangeSink::RangeSink(PartialFile& file, int range, std::string what, Progress& progress,
                     std::stop_token stop)
    : file_(file),
      range_(range),
      what_(std::move(what)),
      progress_(progress),
      stop_(std::move(stop)) {}

BodySink RangeSink::body_sink() {
  return {[this](const HttpReply& reply) { return begin(reply); },
          [this](std::span<const char> bytes) { return write(bytes); }};
}

// A server that ignores Range sends the file from its beginning: what is not wanted of it is passed
// over.
Status RangeSink::begin(const HttpReply& reply) {
  const PartialFile::Range& range = file_.range(range_);
  const std::int64_t wanted = range.begin + range.done;
  const std::int64_t first = reply.status == 206 ? first_byte_of(reply.header("content-range")) : 0;
  const std::int64_t total = total_of(reply);
  if (total >= 0 && total != file_.size())
    return make_error(ErrorCode::kBadFile, "{}: the server has {} bytes, the hub says {}", what_,
                      total, file_.size());
  if (first < 0 || first > wanted)
    return make_error(ErrorCode::kBadFile, "{}: the server sends another range than was asked for",
                      what_);
  to_skip_ = wanted - first;
  return {};
}

Result<bool> RangeSink::write(std::span<const char> bytes) {
  if (stop_.stop_requested()) return false;
  const std::int64_t skipped = std::min(to_skip_, static_cast<std::int64_t>(bytes.size()));
  to_skip_ -= skipped;
  bytes = bytes.subspan(static_cast<std::size_t>(skipped));
  const PartialFile::Range& range = file_.range(range_);
  const std::int64_t left = range.end - range.begin - range.done;
  const std::int64_t count = std::min(left, static_cast<std::int64_t>(bytes.size()));
  QUIRE_TRY(file_.write(range_, bytes.first(static_cast<std::size_t>(count))));
  progress_.add(count);
  return count == static_cast<std::int64_t>(bytes.size());  // more than was asked for: enough
}

}  // namespace quire
