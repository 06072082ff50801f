#include "app/flag_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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
    {"--enable-auto-tool-choice", "send requests without tools"},
    {"--tool-call-parser", "send requests without tools"},
    {"--reasoning-parser", "the whole answer is in `content`"},
    {"--structured-outputs-config", "send requests without response_format"},
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

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

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
