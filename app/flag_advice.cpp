#include "app/flag_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/edit_distance.h"

namespace quire {
namespace {

struct KnownFlag {
  std::string_view name, hint;
};
// Flags of vLLM that this version has no counterpart for, by what a user could do instead.
constexpr std::array kNotBuilt = std::to_array<KnownFlag>({
    {"--tensor-parallel-size", "one process uses all its cores; set --threads"},
    {"-tp", "one process uses all its cores; set --threads"},
    {"--pipeline-parallel-size", "one process uses all its cores; set --threads"},
    {"-pp", "one process uses all its cores; set --threads"},
    {"--data-parallel-size", "start several servers behind a load balancer"},
    {"-dp", "start several servers behind a load balancer"},
    {"--enable-expert-parallel", "one process computes all experts"},
    {"--distributed-executor-backend", "there is one executor, in this process"},
    {"--nnodes", "one host serves a model"},
    {"--tokenizer-mode", "the tokenizer comes from the model's folder or file"},
    {"--trust-remote-code", "no code of a model is ever run"},
    {"--enable-lora", "merge the adapter into the model's weights first"},
    {"--lora-modules", "merge the adapter into the model's weights first"},
    {"--speculative-config", "tokens are decoded one by one"},
    {"--enable-chunked-prefill", "prompts are always chunked, by --max-num-batched-tokens"},
    {"--no-enable-chunked-prefill", "prompts are always chunked, by --max-num-batched-tokens"},
    {"--cpu-offload-gb", "weights are in this machine's memory anyway"},
    {"--swap-space", "a preempted request is recomputed; no swap is needed"},
    {"--ssl-keyfile", "put a TLS proxy in front"},
    {"--ssl-certfile", "put a TLS proxy in front"},
    {"--uds", "use --host and --port"},
    {"--api-server-count", "one process serves; see --io-threads"},
    {"--runner", "only generation is served"},
    {"--task", "only generation is served"},
    {"--otlp-traces-endpoint", "use /metrics"},
    {"--config", "give the flags on the command line"},
});

std::string_view name_of(std::string_view flag) { return flag.substr(0, flag.find('=')); }

}  // namespace

std::string flag_advice(std::string_view flag, const std::vector<std::string>& taken) {
  const std::string_view name = name_of(flag);
  for (const KnownFlag& known : kNotBuilt) {
    if (known.name == name)
      return fmt::format("{} is a flag of vLLM that this version of Quire does not have: {}", name,
                         known.hint);
  }
  if (!name.starts_with("-"))
    return fmt::format("unexpected argument '{}'; one MODEL is taken, see --help", name);
  std::string nearest;
  int best = 1 << 20;
  const auto consider = [&](std::string_view candidate) {
    const int distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  };
  for (const std::string& candidate : taken) consider(candidate);
  for (const KnownFlag& known : kNotBuilt) consider(known.name);
  if (best > static_cast<int>(name.size()) / 3)
    return fmt::format("unknown flag {}; see --help", name);
  return fmt::format("unknown flag {}; did you mean {}?", name, nearest);
}

}  // namespace quire
