// Files of `quire run-batch`: OpenAI's batch format. One JSON object a line; out: one line per line
// in, in the same order, so that a file that ends early says where to go on.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "base/result.h"

namespace quire {

struct BatchLine {
  std::string custom_id, url, body;  // body: JSON of an object
};

// An error says what is wrong with the line; *custom_id is filled where it can be read.
Result<BatchLine> parse_batch_line(std::string_view line, std::string* custom_id);

// Lines of the output file. reply_body is JSON.
std::string reply_line(const std::string& id, const std::string& custom_id, int status,
                       const std::string& request_id, std::string_view reply_body);
std::string error_line(const std::string& id, const std::string& custom_id,
                       const std::string& message);

// Lines of `output` that are whole; a last one that was cut off is removed from the file. An error
// when they are not answers to the first lines of `input`.
Result<std::size_t> lines_done(const std::string& input, const std::string& output);

// Writes lines in the order of their numbers, whatever order they come in. Thread safe.
class OrderedWriter {
 public:
  // first: number of the first line to come.
  OrderedWriter(std::ofstream* out, std::size_t first) : out_(out), next_(first) {}
  void write(std::size_t number, std::string line);
  // Returns when fewer than `ahead` lines before this one are missing.
  void wait_within(std::size_t number, std::size_t ahead);
  bool failed() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable written_;
  std::ofstream* out_;
  std::size_t next_;
  std::map<std::size_t, std::string> waiting_;
};

}  // namespace quire
