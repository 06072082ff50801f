// `quire inspect FILE`: what a model file contains, without loading its weights.
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/load.h"
#include "base/cpu_topology.h"
#include "weights/inspect.h"

namespace quire {
namespace {

struct InspectFlags {
  std::string model;
  InspectOptions options;
};

// Memory for the weights (packed about as large as in the file) and for the KV cache, by token and by full context.
void print_memory(const ModelFiles& files) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const ModelConfig& config = files.config;
  const double kv_elements = 2.0 * config.num_layers * config.num_kv_heads * config.head_dim;
  const MemoryLimits memory = read_memory_limits();
  std::printf("memory needed: %.1f MiB for weights; KV cache of %.1f KiB per token (16-bit), %.1f MiB for a full context of %lld\n",
              static_cast<double>(files.file_bytes) / kMiB, kv_elements * 2 / 1024,
              kv_elements * 2 * static_cast<double>(config.max_position) / kMiB, static_cast<long long>(config.max_position));
  std::printf("memory here: %.1f MiB free of %.1f MiB\n", static_cast<double>(memory.free_bytes) / kMiB,
              static_cast<double>(memory.total_bytes) / kMiB);
}

int run_inspect(const InspectFlags& flags) {
  std::string path = flags.model;
  if (path.empty()) {
    const Result<std::string> found = default_model_path();
    if (!found) return fail(found.error());
    path = *found;
  }
  const Result<ModelFiles> files = open_model(path);
  if (!files) return fail(files.error());
  std::fputs(describe_model(*files, flags.options).c_str(), stdout);
  print_memory(*files);
  return 0;
}

}  // namespace

Command add_inspect(CLI::App& command) {
  auto flags = std::make_shared<InspectFlags>();
  command.add_option("model_tag,--model", flags->model, "Model folder or GGUF file (default: SmolLM2-135M-Instruct)");
  command.add_flag("--tensors", flags->options.list_tensors, "List every tensor");
  return [flags] { return run_inspect(*flags); };
}

}  // namespace quire
