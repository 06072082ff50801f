// The composition root of the `quire` binary: parses the command line and runs one command.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "app/commands.h"
#include "app/flag_advice.h"
#include "backend/backend.h"
#include "base/cpu_topology.h"
#include "base/result.h"

namespace quire {
namespace {

struct Entry {
  CLI::App* app;
  Command run;
};

std::string version_text() {
  std::string text = fmt::format("quire {}\n", QUIRE_VERSION);
  const CpuTopology topology = read_cpu_topology();
  text += fmt::format("CPU: {}, {} cores usable\n", topology.model_name, topology.usable_threads);
  const Result<std::unique_ptr<Backend>> backend = make_cpu_backend({});
  text += backend ? fmt::format("backend: {}\n", (*backend)->description())
                  : backend.error().message + "\n";
  return text;
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The first argument that no flag of the command took, or -1: all is well.
int refuse_leftovers(const CLI::App& command) {
  const std::vector<std::string> left = command.remaining();
  if (left.empty()) return -1;
  std::fprintf(stderr, "quire %s: error: %s\n", command.get_name().c_str(),
               flag_advice(left.front(), flags_of(command)).c_str());
  return 2;
}

// What could not be written is lost: a full disk must not look like success.
int check_output(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return code;
  std::fprintf(stderr, "quire: error: the output could not be written\n");
  return code == 0 ? 1 : code;
}

int run(int argc, char** argv) {
  CLI::App app("Quire serves open language models through an OpenAI-compatible API.", "quire");
  app.require_subcommand(0, 1);
  bool version = false;
  app.add_flag("--version", version, "Version, CPU and kernels chosen");
  std::vector<Entry> entries;
  const auto add = [&](const char* name, const char* what,
                       Command (*setup)(CLI::App&)) -> CLI::App& {
    CLI::App* command = app.add_subcommand(name, what)->allow_extras();
    command->option_defaults()->always_capture_default(false);
    entries.push_back({command, setup(*command)});
    return *command;
  };
  add("serve", "Start the OpenAI-compatible server", add_serve);
  add("generate", "Continue a prompt", add_generate);
  add("run-batch", "Answer a file of requests (OpenAI's batch format)", add_run_batch);
  add("chat", "Talk to a model on the terminal", add_chat);
  add("inspect", "Say what a model file contains", add_inspect);
  add("pull", "Fetch a model from the hub into the cache", add_pull);
  add("list", "List the models in the cache", add_list);
  add("rm", "Remove a model from the cache", add_rm);
  add("openapi", "Print the OpenAPI document of the server", add_openapi);
  add("simulate", "Replay a load on the scheduler with a model of costs", add_simulate);
  add("bench-engine", "Measure the engine without HTTP", add_bench_engine).group("");  // hidden
  add("bench-logits", "Write logits of given tokens", add_bench_logits).group("");
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::fprintf(stderr, "quire: error: %s\n", error.what());
    return 2;
  }
  if (version) {
    std::fputs(version_text().c_str(), stdout);
    return 0;
  }
  for (const Entry& entry : entries) {
    if (!entry.app->parsed()) continue;
    if (const int code = refuse_leftovers(*entry.app); code >= 0) return code;
    return entry.run();
  }
  if (!app.remaining().empty()) {
    std::fprintf(stderr,
                 "quire: error: unknown command '%s'; commands: serve, generate, chat, run-batch, "
                 "inspect, "
                 "pull, list, rm, simulate\n",
                 app.remaining().front().c_str());
    return 2;
  }
  std::fputs(app.help().c_str(), stdout);
  return 0;
}

}  // namespace

}  // namespace quire

int main(int argc, char** argv) { return quire::check_output(quire::run(argc, argv)); }
