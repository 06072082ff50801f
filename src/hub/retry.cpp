#include "hub/retry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <mutex>

#include "base/clock.h"
#include "base/log.h"

namespace quire {
namespace {

constexpr double kMaxRetryAfter_s = 600;  // a server that asks for more is not waited for

// False: asked to stop.
bool sleep_for(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

bool is_temporary(const HttpReply& reply) {
  return !reply.failure.empty() || reply.status == 408 || reply.status == 429 ||
         reply.status >= 500;
}

std::string failure_text(const HttpReply& reply) {
  if (!reply.failure.empty()) return reply.failure;
  return fmt::format("HTTP {}{}", reply.status, reply.status == 429 ? ", too many requests" : "");
}

std::optional<double> parse_retry_after(const std::string& text, double now_unix_s) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == '\0')
    return std::isfinite(seconds) && seconds >= 0 ? std::optional(seconds) : std::nullopt;
  std::tm date = {};
  if (!strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date)) return std::nullopt;
  return std::max(0.0, static_cast<double>(timegm(&date)) - now_unix_s);
}

double backoff_s(int failed) { return std::min(8.0, 0.5 * std::pow(2.0, std::max(0, failed - 1))); }

bool Retry::again(const HttpReply& reply, std::string_view what, bool made_progress) {
  failed_ = made_progress ? 1 : failed_ + 1;
  if (failed_ >= attempts_) return false;
  const double pause =
      parse_retry_after(reply.header("retry-after"), static_cast<double>(unix_time_s()))
          .value_or(backoff_s(failed_));
  if (pause > kMaxRetryAfter_s) return false;
  log_warning("{}: {}; again in {:.1f} s", what, failure_text(reply), pause);
  return sleep_for(pause, stop_);
}

}  // namespace quire
