#include "app/profile.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/log.h"
#include "base/trace.h"

namespace quire {
namespace {

constexpr int kSignalExit = 128;  // added to the signal, as shells do

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}
// This thread and those made after this leave the signals to the one that waits for them.
void hold_signals() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}
void end_at_signals() {
  std::thread([set = ending_signals()] {
    int signal = 0;
    sigwait(&set, &signal);
    ProfileRun::finish();
    _exit(kSignalExit + signal);
  }).detach();
}

}  // namespace

void add_profile_flag(CLI::App& command, std::string* path) {
  command
      .add_option("--profile", *path,
                  "Record what each thread does; written here at the end as a Chrome trace, with a "
                  "summary on stderr")
      ->type_name("FILE");
}

Status ProfileRun::start(const std::string& path, Signals signals) {
  if (path.empty()) return {};
  if (signals == Signals::kEndProcess) hold_signals();
  std::FILE* const file = std::fopen(path.c_str(), "ab");  // now, not after an hour's work
  if (file == nullptr)
    return field_error("--profile", "--profile: {} cannot be written: does its folder exist?",
                       path);
  std::fclose(file);
  start_trace(path);
  if (signals == Signals::kEndProcess) end_at_signals();
  return {};
}

void ProfileRun::finish() {
  if (const Status status = finish_trace(); !status) log_error("{}", status.error().message);
}

}  // namespace quire
