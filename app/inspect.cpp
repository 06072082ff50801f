// `quire inspect FILE`: what a model file contains, without loading its weights.
#include "weights/inspect.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/flags.h"
#include "app/load.h"
#include "app/open_files.h"
#include "app/resolve_model.h"
#include "base/cpu_topology.h"

namespace quire {
namespace {

struct InspectFlags {
  std::string model;
  HubFlags hub;
  OpenFlags open;
  InspectOptions options;
};

void print_memory_here() {
  constexpr double kMiB = 1024.0 * 1024.0;
  const MemoryLimits memory = read_memory_limits();
  std::printf("memory here:        %.1f MiB free of %.1f MiB\n",
              static_cast<double>(memory.free_bytes) / kMiB,
              static_cast<double>(memory.total_bytes) / kMiB);
}

int run_inspect(const InspectFlags& flags) {
  std::string path = flags.model;
  if (path.empty()) {
    const Result<std::string> found = default_model_path();
    if (!found) return fail(found.error());
    path = *found;
  }
  const Result<std::string> resolved = resolve_model(path, flags.hub, flags.open);
  if (!resolved) return fail(resolved.error());
  const Result<ModelFiles> files = open_files(*resolved, flags.open, 0);
  if (!files) return fail(files.error());
  std::fputs(describe_model(*files, flags.options).c_str(), stdout);
  print_memory_here();
  return 0;
}

}  // namespace

Command add_inspect(CLI::App& command) {
  auto flags = std::make_shared<InspectFlags>();
  command.add_option(
      "model_tag,--model", flags->model,
      "Model folder, GGUF file, or ORG/NAME[:QUANT] on the hub (default: SmolLM2-135M-Instruct)");
  add_hub_flags(command, flags->hub);
  add_open_flags(command, flags->open);
  command.add_flag("--tensors", flags->options.list_tensors, "List every tensor");
  return [flags] { return run_inspect(*flags); };
}

}  // namespace quire
