// How fast the queue empties: requests that start per second, over about the last half minute in
// which somebody waited. Says when a client that finds the queue full should come again. Engine
// thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace quire {

class QueueRate {
 public:
  // After a step: `started` counts since the start of the engine.
  void observe(double now_s, std::int64_t started, bool somebody_waits) {
    if (waited_) {
      const double passed_s = std::max(0.0, now_s - last_s_);
      const double kept = std::exp(-passed_s / kMemoryS);
      seconds_ = seconds_ * kept + passed_s;
      starts_ = starts_ * kept + static_cast<double>(started - last_started_);
    }
    last_s_ = now_s;
    last_started_ = started;
    waited_ = somebody_waits;
  }
  // While none has started, the next one is expected after as long again.
  double per_s() const { return std::max(starts_, 1.0) / std::max(seconds_, 1.0); }

 private:
  static constexpr double kMemoryS = 30;
  double seconds_ = 0, starts_ = 0, last_s_ = 0;
  std::int64_t last_started_ = 0;
  bool waited_ = false;
};

}  // namespace quire
