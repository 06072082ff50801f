// `--profile FILE`: what each thread does when is recorded and written at the end of the process,
// be it by itself, by SIGTERM or by SIGINT. See docs/profiling.md.
#pragma once

#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace quire {

void add_profile_flag(CLI::App& command, std::string* path);

class ProfileRun {
 public:
  // What the ending signals do.
  enum class Signals {
    kEndProcess,  // write, then end: before this there are no other threads
    kLeft,        // the command handles them itself and calls finish()
  };
  ProfileRun() = default;
  ~ProfileRun() { finish(); }
  ProfileRun(const ProfileRun&) = delete;
  ProfileRun& operator=(const ProfileRun&) = delete;

  // Records from now on. An empty path: nothing. The error: the file cannot be written.
  static Status start(const std::string& path, Signals signals);
  // Writes what is recorded, once.
  static void finish();
};

}  // namespace quire
