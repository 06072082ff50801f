// `quire rm ORG/NAME[:QUANT]`: removes a model from the cache, without asking.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/flags.h"
#include "app/resolve_model.h"
#include "hub/inventory.h"
#include "hub/partial_file.h"

namespace quire {
namespace {

struct RmFlags {
  std::string model;
  HubFlags hub;
};

int run_rm(const RmFlags& flags) {
  const Result<ModelRef> ref = require_model_ref(flags.model);
  if (!ref) return fail(ref.error());
  const Result<HubSettings> settings = read_hub_settings(flags.hub);
  if (!settings) return fail(settings.error());
  const Result<std::int64_t> freed = remove_cached(settings->cache_dir, *ref);
  if (!freed) return fail(freed.error());
  std::printf("removed %s: %s freed (%lld bytes)\n", flags.model.c_str(),
              format_bytes(*freed).c_str(), static_cast<long long>(*freed));
  return 0;
}

}  // namespace

Command add_rm(CLI::App& command) {
  auto flags = std::make_shared<RmFlags>();
  command
      .add_option("model_tag,--model", flags->model,
                  "ORG/NAME, or ORG/NAME:QUANT for one of its GGUF files")
      ->required();
  command.add_option("--download-dir", flags->hub.download_dir,
                     "Cache of models (default: HF_HUB_CACHE, else HF_HOME/hub)");
  return [flags] { return run_rm(*flags); };
}

}  // namespace quire
