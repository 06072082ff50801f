#include "model/layers/mlp.h"

#include <cmath>
#include <utility>

namespace quire {
namespace {

float softplus(float x) { return static_cast<float>(std::log1p(std::exp(static_cast<double>(x)))); }

}  // namespace

Result<ActivationArgs> load_activation(WeightLoader& loader, const std::string& prefix,
                                       const MlpSpec& spec) {
  ActivationArgs args;
  args.kind = spec.activation;
  args.gated = spec.gated;
  args.alpha = spec.activation_alpha;
  args.limit = spec.activation_limit;
  if (spec.activation != ActivationKind::kXielu) return args;
  std::vector<float> values;  // the alphas are stored before their softplus
  for (const char* name : {"alpha_p", "alpha_n", "beta", "eps"}) {
    QUIRE_ASSIGN(const float value, loader.scalar(prefix + spec.xielu + "." + name));
    values.push_back(value);
  }
  args.alpha_p = softplus(values[0]);
  args.alpha_n = values[2] + softplus(values[1]);
  args.beta = values[2];
  args.xielu_eps = values[3];
  return args;
}

Result<std::unique_ptr<Mlp>> Mlp::load(WeightLoader& loader, const std::string& prefix,
                                       std::int64_t hidden, const MlpSpec& spec) {
  const Bias bias = spec.ignore_bias    ? Bias::kIgnored
                    : spec.require_bias ? Bias::kRequired
                                        : Bias::kIfPresent;
  std::vector<WeightLoader::Part> parts;
  if (spec.gated && !spec.fused_gate_up.empty()) {
    parts = {
        {prefix + spec.fused_gate_up, 2 * std::int64_t{spec.intermediate}, spec.transposed, {}}};
  } else {
    if (spec.gated) parts.push_back({prefix + spec.gate, spec.intermediate, spec.transposed, {}});
    parts.push_back({prefix + spec.up, spec.intermediate, spec.transposed, {}});
  }
  QUIRE_ASSIGN(const ActivationArgs activation, load_activation(loader, prefix, spec));
  QUIRE_ASSIGN(std::unique_ptr<Linear> up, loader.linear(parts, hidden, bias));
  QUIRE_ASSIGN(
      std::unique_ptr<Linear> down,
      loader.linear({{prefix + spec.down, hidden, spec.transposed, {}}}, spec.intermediate, bias));
  return std::make_unique<Mlp>(activation, std::move(up), std::move(down));
}

}  // namespace quire
