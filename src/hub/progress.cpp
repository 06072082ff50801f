#include "hub/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "hub/partial_file.h"

namespace quire {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr double kRateWindow_s = 5;  // the rate is the mean of the last seconds
constexpr double kLineEvery_s = 15;  // without a terminal: so often, or every tenth

int terminal_width() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

int percent(const ProgressState& state) {
  return state.total_bytes > 0 ? static_cast<int>(state.done_bytes * 100 / state.total_bytes) : 100;
}

std::string rate_text(const ProgressState& state) {
  if (state.bytes_per_s < 1) return "waiting";
  const double left_s =
      static_cast<double>(state.total_bytes - state.done_bytes) / state.bytes_per_s;
  return fmt::format("{}/s  {} left", format_bytes(static_cast<std::int64_t>(state.bytes_per_s)),
                     format_duration(left_s));
}

// Mean rate over the last seconds.
class RateMeter {
 public:
  double measure(double now, std::int64_t bytes) {
    samples_.emplace_back(now, bytes);
    while (samples_.size() > 2 && now - samples_[1].first > kRateWindow_s) samples_.pop_front();
    const double span = now - samples_.front().first;
    return span > 0 ? static_cast<double>(bytes - samples_.front().second) / span : 0;
  }

 private:
  std::deque<std::pair<double, std::int64_t>> samples_;  // time, bytes
};

}  // namespace

std::string format_duration(double seconds) {
  const std::int64_t s = static_cast<std::int64_t>(std::min(seconds + 0.5, 359999.0));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string format_line(std::string_view label, const ProgressState& state) {
  return fmt::format("{}: {} % of {}, {}", label, percent(state), format_bytes(state.total_bytes),
                     rate_text(state));
}

std::string format_bar(std::string_view label, const ProgressState& state, int width) {
  const std::string right =
      fmt::format(" {:3} %  {} of {}  {}", percent(state), format_bytes(state.done_bytes),
                  format_bytes(state.total_bytes), rate_text(state));
  const int room = width - static_cast<int>(label.size() + right.size()) - 4;
  if (room < 5) {
    std::string plain = std::string(label) + right;
    plain.resize(std::min(plain.size(), static_cast<std::size_t>(std::max(width - 1, 0))));
    return plain;
  }
  const int columns = std::min(room, 40);
  const int filled = columns * std::clamp(percent(state), 0, 100) / 100;
  return fmt::format("{} [{}{}]{}", label, std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(columns - filled), '-'), right);
}

Progress::Progress(std::string label, bool show)
    : label_(std::move(label)), show_(show), is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  {
    std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::expect(std::int64_t bytes, std::int64_t done) {
  total_ += bytes;
  found_ += done;
  if (thread_.joinable()) return;
  begin_s_ = now_s();
  if (show_) thread_ = std::thread([this] { run(); });
}

ProgressState Progress::state(double rate) const { return {found_ + fetched_, total_, rate}; }

void Progress::run() {
  RateMeter meter;
  double last_line = begin_s_;
  int last_tenth = 0;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kRedraw, [this] { return is_ended_; })) {
    const double now = now_s();
    const ProgressState current = state(meter.measure(now, fetched_));
    if (is_terminal_) {
      std::fprintf(stderr, "\r%s\x1b[K", format_bar(label_, current, terminal_width()).c_str());
      std::fflush(stderr);
    } else if (const int tenth = percent(current) / 10;
               tenth != last_tenth || now - last_line > kLineEvery_s) {
      log_info("{}", format_line(label_, current));
      last_tenth = tenth;
      last_line = now;
    }
  }
  if (is_terminal_) std::fputs("\r\x1b[K", stderr);
}

void Progress::finish() {
  {
    std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (total_ == 0) return;
  const double elapsed_s = std::max(now_s() - begin_s_, 1e-3);
  const std::int64_t fetched = fetched_, found = found_;
  log_info("{}: fetched {} in {:.1f} s ({}/s){}", label_, format_bytes(fetched), elapsed_s,
           format_bytes(static_cast<std::int64_t>(static_cast<double>(fetched) / elapsed_s)),
           found > 0 ? fmt::format("; {} were there", format_bytes(found)) : "");
}

}  // namespace quire
