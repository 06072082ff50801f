#include "model/registry.h"

#include "base/edit_distance.h"
#include "model/architectures.h"
#include "model/expected_tensors.h"
#include "model/transformer.h"

namespace quire {

Result<std::unique_ptr<Model>> create_model(const ModelConfig& config, const WeightSource& weights,
                                            Backend& backend) {
  for (const Architecture& entry : architectures()) {
    if (config.architecture != entry.name) continue;
    QUIRE_ASSIGN(ModelSpec spec, entry.spec(config));
    spec.online_bits = config.quantization.online_bits;
    QUIRE_TRY(weights.check_tensors(expected_tensors(spec, weights)));
    return Transformer::load(std::move(spec), weights, backend);
  }
  return make_error(ErrorCode::kUnsupported,
                    "architecture \"{}\" is not supported; the nearest that is: {}",
                    config.source_architecture,
                    nearest_name(config.architecture, architectures(), &Architecture::name));
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Architecture& entry : architectures()) names.emplace_back(entry.name);
  return names;
}

}  // namespace quire
