#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace quire {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "quire: internal error: %s:%d: %s%s%s\n", file, line, condition,
               message.empty() ? "" : ": ", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace quire
