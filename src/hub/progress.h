// How far a download is: a bar that is redrawn on a terminal, a log line now and then otherwise.
// Its own thread draws; any thread may add.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace quire {

struct ProgressState {
  std::int64_t done_bytes = 0, total_bytes = 0;
  double bytes_per_s = 0;  // 0: not known yet
};
// "ORG/NAME [####----]  45 %  1.23 of 2.70 GB  85.0 MB/s  0:17 left", at most `width` columns.
std::string format_bar(std::string_view label, const ProgressState& state, int width);
std::string format_line(std::string_view label, const ProgressState& state);
std::string format_duration(double seconds);  // "0:17", "1:02:03"

class Progress {
 public:
  Progress(std::string label, bool show);
  ~Progress();

  // More to fetch, of which `done` is there from an earlier run.
  void expect(std::int64_t bytes, std::int64_t done);
  void add(std::int64_t bytes) { fetched_ += bytes; }
  // Ends the drawing; one line tells the whole.
  void finish();

 private:
  void run();
  ProgressState state(double rate) const;

  const std::string label_;
  const bool show_, is_terminal_;
  std::atomic<std::int64_t> fetched_ = 0, found_ = 0, total_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;  // guarded by mutex_
  double begin_s_ = 0;
  std::thread thread_;  // started by the first expect()
};

}  // namespace quire
