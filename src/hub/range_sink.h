// Takes the hub's answers to requests for one range of a file, and writes what of them belongs
// there. Belongs to the worker that fetches the range.
#pragma once

#include <stop_token>
#include <string>

#include "hub/http_client.h"
#include "hub/partial_file.h"
#include "hub/progress.h"

namespace quire {

class RangeSink {
 public:
  // what: the file's name in messages.
  RangeSink(PartialFile& file, int range, std::string what, Progress& progress,
            std::stop_token stop);

  BodySink body_sink();

 private:
  Status begin(const HttpReply& reply);
  Result<bool> write(std::span<const char> bytes);

  PartialFile& file_;
  const int range_;
  const std::string what_;
  Progress& progress_;
  const std::stop_token stop_;
  std::int64_t to_skip_ = 0;  // bytes of the answer before what is missing
};

}  // namespace quire
