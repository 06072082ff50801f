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
    // Parallel
    {"--tensor-parallel-size", "one process uses all its cores; set --threads"},
    {"-tp", "one process uses all its cores; set --threads"},
    {"--pipeline-parallel-size", "one process uses all its cores; set --threads"},
    {"-pp", "one process uses all its cores; set --threads"},
    {"--data-parallel-size", "start several servers behind a load balancer"},
    {"-dp", "start several servers behind a load balancer"},
    {"--data-parallel-address", "start several servers behind a load balancer"},
    {"--data-parallel-rank", "start several servers behind a load balancer"},
    {"--data-parallel-rpc-port", "start several servers behind a load balancer"},
    {"--data-parallel-backend", "start several servers behind a load balancer"},
    {"--data-parallel-hybrid-lb", "start several servers behind a load balancer"},
    {"--data-parallel-external-lb", "start several servers behind a load balancer"},
    {"--prefill-schedule-interval", "start several servers behind a load balancer"},
    {"--decode-context-parallel-size", "one process uses all its cores; set --threads"},
    {"--prefill-context-parallel-size", "one process uses all its cores; set --threads"},
    {"--enable-expert-parallel", "one process computes all experts"},
    {"--all2all-backend", "one process computes all experts"},
    {"--enable-eplb", "one process computes all experts"},
    {"--distributed-executor-backend", "there is one executor, in this process"},
    {"--disable-custom-all-reduce", "there is one executor, in this process"},
    {"--nnodes", "one host serves a model"},
    {"--node-rank", "one host serves a model"},
    {"--master-addr", "one host serves a model"},
    {"--master-port", "one host serves a model"},
    {"--headless", "one host serves a model"},
    {"--numa-bind", "start it under numactl; threads keep to the cores they are given"},
    {"--api-server-count", "one process serves; see --io-threads"},
    // Model and load
    {"--tokenizer-mode", "the tokenizer comes from the model's folder or file"},
    {"--skip-tokenizer-init", "the tokenizer is needed; send token ids as `prompt`"},
    {"--trust-remote-code", "no code of a model is ever run"},
    {"--model-impl", "every model runs on Quire's own layers"},
    {"--runner", "generation and embeddings are served of one model"},
    {"--task", "generation and embeddings are served of one model"},
    {"--convert", "embeddings are served of every model"},
    {"--safetensors-load-strategy", "files are mapped and read as they are needed"},
    {"--model-loader-extra-config", "see --load-format"},
    {"--ignore-patterns", "what a model does not need is not fetched"},
    {"--quantization-config", "it is read from the model's own files; see --quantization"},
    {"--cpu-offload-gb", "weights are in this machine's memory anyway"},
    {"--swap-space", "a preempted request is recomputed; no swap is needed"},
    {"--enable-sleep-mode", "stop the server; it is ready again in about a second"},
    {"--enable-prompt-embeds", "prompts are texts or token ids"},
    {"-O", "nothing is compiled at the start; see --kernels"},
    {"--optimization-level", "nothing is compiled at the start; see --kernels"},
    {"--compilation-config", "nothing is compiled at the start; see --kernels"},
    {"--attention-backend", "see --kernels"},
    // Scheduler and cache
    {"--no-enable-chunked-prefill", "prompts are always chunked, by --max-num-batched-tokens"},
    {"--max-num-scheduled-tokens", "it is --max-num-batched-tokens here"},
    {"--scheduler-cls", "see --scheduling-policy"},
    {"--scheduler-reserve-full-isl", "room for a whole prompt is always looked for"},
    {"--watermark", "admission looks ahead by measured lengths of answers"},
    {"--disable-chunked-mm-input", "models take text alone"},
    {"--disable-hybrid-kv-cache-manager", "each group of layers keeps what it needs"},
    {"--prefix-caching-hash-algo", "blocks are compared by their tokens; the hash is a shortcut"},
    {"--kv-offloading-size", "the cache is in this machine's memory anyway"},
    {"--kv-offloading-backend", "the cache is in this machine's memory anyway"},
    {"--kv-transfer-config", "prefill and decode run in one process"},
    {"--kv-events-config", "see /metrics"},
    {"--mamba-cache-mode", "see --mamba-block-size"},
    {"--mamba-cache-dtype", "recurrent states are kept in float32"},
    // LoRA and speculation
    {"--enable-lora", "merge the adapter into the model's weights first"},
    {"--lora-modules", "merge the adapter into the model's weights first"},
    {"--max-loras", "merge the adapter into the model's weights first"},
    {"--max-lora-rank", "merge the adapter into the model's weights first"},
    {"--max-cpu-loras", "merge the adapter into the model's weights first"},
    {"--lora-dtype", "merge the adapter into the model's weights first"},
    {"--fully-sharded-loras", "merge the adapter into the model's weights first"},
    {"--default-mm-loras", "merge the adapter into the model's weights first"},
    {"--speculative-config", "tokens are decoded one by one"},
    {"--spec-method", "tokens are decoded one by one"},
    {"--spec-model", "tokens are decoded one by one"},
    {"--spec-tokens", "tokens are decoded one by one"},
    // Templates, tools, reasoning
    {"--chat-template-content-format", "texts of content parts are joined for the template"},
    {"--tool-parser-plugin", "see --tool-call-parser"},
    {"--tool-server", "tools are run by the client"},
    {"--reasoning-parser-plugin", "see --reasoning-parser"},
    // Server
    {"--uds", "use --host and --port"},
    {"--ssl-keyfile", "put a TLS proxy in front"},
    {"--ssl-certfile", "put a TLS proxy in front"},
    {"--ssl-ca-certs", "put a TLS proxy in front"},
    {"--ssl-cert-reqs", "put a TLS proxy in front"},
    {"--ssl-ciphers", "put a TLS proxy in front"},
    {"--enable-ssl-refresh", "put a TLS proxy in front"},
    {"--middleware", "put a proxy in front"},
    {"--config", "give the flags on the command line"},
    {"--uvicorn-log-level", "use --log-level"},
    {"--disable-access-log-for-endpoints", "requests are not logged one by one"},
    {"--enable-log-requests", "requests are not logged one by one"},
    {"--enable-log-outputs", "answers are not logged"},
    {"--max-log-len", "requests are not logged one by one"},
    {"--log-error-stack", "errors are told in one line"},
    {"--h11-max-incomplete-event-size", "heads of requests have a fixed limit"},
    {"--h11-max-header-count", "heads of requests have a fixed limit"},
    {"--fingerprint-mode", "answers have no system_fingerprint"},
    {"--enable-per-request-metrics", "see /metrics"},
    {"--enable-server-load-tracking", "see vllm:num_requests_running of /metrics"},
    {"--tokens-only", "send token ids as `prompt`, with `return_token_ids`"},
    // Observability
    {"--disable-log-stats", "/metrics costs next to nothing"},
    {"--otlp-traces-endpoint", "use /metrics or --profile"},
    {"--collect-detailed-traces", "use --profile"},
    {"--show-hidden-metrics-for-version", "see /metrics"},
    {"--kv-cache-metrics", "see /metrics"},
    {"--kv-cache-metrics-sample", "see /metrics"},
    {"--enable-mfu-metrics", "use --profile"},
    {"--cudagraph-metrics", "there are no graphs on a CPU"},
    {"--enable-logging-iteration-details", "use --profile"},
    {"--per-request-spec-decode-metrics", "tokens are decoded one by one"},
    {"--profiler-config", "use --profile FILE"},
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
