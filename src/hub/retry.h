// When to ask again: after a cut connection, 408, 429 and 5xx, with growing pauses or the server's
// Retry-After. One object per transfer; its thread sleeps in it, until asked to stop.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "hub/http_client.h"

namespace quire {

class Retry {
 public:
  Retry(int attempts, std::stop_token stop) : attempts_(attempts), stop_(std::move(stop)) {}

  // After an answer that is_temporary: sleeps and returns true, or false when it is time to give
  // up. made_progress: bytes came meanwhile, so the count begins anew.
  bool again(const HttpReply& reply, std::string_view what, bool made_progress);

 private:
  int attempts_;
  int failed_ = 0;
  std::stop_token stop_;
};

bool is_temporary(const HttpReply& reply);
// "HTTP 503", "the connection was cut", ...
std::string failure_text(const HttpReply& reply);
// Seconds of a Retry-After header: a number or a date (now: seconds since 1970).
std::optional<double> parse_retry_after(const std::string& text, double now_unix_s);
double backoff_s(int failed);  // 0.5, 1, 2, 4, 8, 8, ...

}  // namespace quire
