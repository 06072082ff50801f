// `quire pull ORG/NAME[:QUANT]`: fetches a model into the cache and prints its path.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/flags.h"
#include "app/resolve_model.h"

namespace quire {
namespace {

struct PullFlags {
  std::string model;
  HubFlags hub;
};

int run_pull(const PullFlags& flags) {
  const Result<ModelRef> ref = require_model_ref(flags.model);
  if (!ref) return fail(ref.error());
  const Result<HubSettings> settings = read_hub_settings(flags.hub);
  if (!settings) return fail(settings.error());
  const Result<std::string> path = fetch_interruptibly(*ref, *settings);
  if (!path) return fail(path.error());
  std::printf("%s\n", path->c_str());
  return 0;
}

}  // namespace

Command add_pull(CLI::App& command) {
  auto flags = std::make_shared<PullFlags>();
  command
      .add_option("model_tag,--model", flags->model,
                  "ORG/NAME on the hub, or ORG/NAME:QUANT for one of its GGUF files")
      ->required();
  add_hub_flags(command, flags->hub);
  return [flags] { return run_pull(*flags); };
}

}  // namespace quire
