// QUIRE_CHECK: an invariant of our own code. A failure prints file, line and message and aborts.
// QUIRE_DCHECK: the same in builds with QUIRE_DEBUG_CHECKS (dev, tsan, relassert), nothing
// otherwise.
#pragma once

#include <fmt/format.h>

#include <string>

namespace quire {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

inline std::string check_message() { return {}; }
template <class... Args>
std::string check_message(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace quire

#define QUIRE_CHECK(condition, ...)                                                               \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::quire::check_failed(__FILE__, __LINE__, #condition, ::quire::check_message(__VA_ARGS__)); \
  } while (0)

#ifdef QUIRE_DEBUG_CHECKS
#define QUIRE_DCHECK(condition, ...) QUIRE_CHECK(condition, __VA_ARGS__)
#else
#define QUIRE_DCHECK(condition, ...) \
  do {                               \
  } while (0)
#endif
