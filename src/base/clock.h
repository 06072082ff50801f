// Monotonic time in seconds, and wall-clock seconds for API timestamps.
#pragma once

#include <chrono>
#include <cstdint>

namespace quire {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
inline std::int64_t unix_time_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace quire
