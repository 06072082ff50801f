#include "app/commands.h"

#include <cstdio>

#include "base/result.h"

namespace quire {

// Not in main.cpp: test programs link the commands without it.
int fail(const Error& error) {
  std::fprintf(stderr, "quire: error: %s\n", error.message.c_str());
  return 1;
}

}  // namespace quire
