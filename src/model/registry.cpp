#include "model/registry.h"

#include <array>

#include "model/llama.h"

namespace quire {
namespace {

using Create = Result<std::unique_ptr<Model>> (*)(const ModelConfig&, const WeightSource&, Backend&);
struct Entry {
  const char* architecture;  // ModelConfig::architecture
  Create create;
};
// A new architecture is one file and one line here.
constexpr std::array<Entry, 1> kRegistry = {{
    {"llama", create_llama},  // Llama 2/3, SmolLM2, Mistral
}};

}  // namespace

Result<std::unique_ptr<Model>> create_model(const ModelConfig& config, const WeightSource& weights,
                                            Backend& backend) {
  for (const Entry& entry : kRegistry) {
    if (config.architecture == entry.architecture) return entry.create(config, weights, backend);
  }
  std::string known;
  for (const Entry& entry : kRegistry) known += (known.empty() ? "" : ", ") + std::string(entry.architecture);
  return make_error(ErrorCode::kUnsupported, "architecture '{}' is not supported; known: {}",
                    config.source_architecture, known);
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Entry& entry : kRegistry) names.emplace_back(entry.architecture);
  return names;
}

}  // namespace quire
