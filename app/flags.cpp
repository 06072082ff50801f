#include "app/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "app/flag_checks.h"

namespace quire {
namespace {

// "<number><suffix>": the number and what follows it.
struct Scaled {
  double number = 0;
  std::string suffix;
};
std::optional<Scaled> split_number(const std::string& text) {
  Scaled scaled;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scaled.number);
  if (error != std::errc{} || !std::isfinite(scaled.number)) return std::nullopt;
  scaled.suffix.assign(end, text.data() + text.size());
  return scaled;
}

}  // namespace

void add_hub_flags(CLI::App& command, HubFlags& flags) {
  command.add_option("--revision", flags.revision,
                     "Branch, tag or commit of a model on the hub (default: main)");
  command.add_option("--download-dir", flags.download_dir,
                     "Cache of models (default: HF_HUB_CACHE, else HF_HOME/hub)");
  command
      .add_option("--hf-token", flags.token,
                  "Access token of the hub (default: HF_TOKEN, else HF_HOME/token)")
      ->expected(0, 1);
}

CLI::Validator finite_range(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc{} && end == text.data() + text.size() && value >= low &&
            value <= high)
          return {};
        return fmt::format("{} is not a number in {} to {}", text, low, high);
      },
      fmt::format("NUMBER in [{} - {}]", low, high));
}

void add_open_flags(CLI::App& command, OpenFlags& flags) {
  OpenOptions& options = flags.options;
  command
      .add_option("--load-format", flags.load_format,
                  "auto, or dummy: made-up weights (by --seed) for a config.json alone")
      ->check(CLI::IsMember({"auto", "dummy"}))
      ->capture_default_str();
  command.add_option("--hf-overrides", options.hf_overrides, "JSON object laid over config.json");
  command
      .add_option("--generation-config", options.generation_config,
                  "Sampling defaults: auto (the model's own), vllm (none), or a "
                  "generation_config.json or its folder")
      ->capture_default_str();
  command.add_option("--override-generation-config", options.override_generation_config,
                     "JSON object laid over the sampling defaults");
}

namespace {
// Flags of vLLM that ask for what is done anyway.
void accept_flag(CLI::App& command, const std::string& names, const std::string& why) {
  command.add_flag_function(
      names, [](std::int64_t) {}, "Accepted: " + why);
}
}  // namespace

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  command.add_option(
      "model_tag,--model", flags.model,
      "Model folder, GGUF file, or ORG/NAME[:QUANT] on the hub (default: SmolLM2-135M-Instruct)");
  add_hub_flags(command, flags.hub);
  add_open_flags(command, flags.open);
  command.add_option("--tokenizer", flags.tokenizer,
                     "Folder, tokenizer.json or ORG/NAME to use in place of the model's own");
  command.add_flag("--check-weights", flags.check_weights,
                   "Look for NaN and infinities in the weights first");
  command.add_option("-q,--quantization", flags.quantization,
                     "int8 or int4: quantize a plain model at load; else what the file must have: "
                     "awq, gptq, compressed-tensors, fp8, mxfp4, gguf");
  command.add_option("--dtype", flags.dtype, "Arithmetic of matrix products")
      ->check(CLI::IsMember({"auto", "float32", "float", "bfloat16", "float16", "half"}))
      ->capture_default_str();
  command.add_option("--kv-cache-dtype", flags.kv_cache_dtype, "Storage of keys and values")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16", "int8"}))
      ->capture_default_str();
  command
      .add_option("--kernels", flags.kernels,
                  "CPU kernels: auto, ref, avx2, avx_vnni, avx512, vnni, bf16, amx, neon, i8mm")
      ->capture_default_str();
  command
      .add_option("--threads", flags.threads,
                  "Kernel threads (0: physical cores within affinity and CPU quota)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option("--block-size", flags.block_size,
                  "Tokens of a KV block: a multiple of 8 in 8..256")
      ->check(CLI::Range(8, 256))
      ->capture_default_str();
  command.add_option("--max-model-len", flags.max_model_len,
                     "Longest prompt + output: 4096, 4k, auto (what fits)");
  command
      .add_option("--max-num-batched-tokens", flags.max_num_batched_tokens,
                  "Token budget of a step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--max-num-seqs", flags.max_num_seqs, "Sequences that run at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option("--gpu-memory-utilization", flags.gpu_memory_utilization,
                  "Share of the usable memory for weights and KV cache")
      ->check(finite_range(0.001, 1.0));
  command.add_option("--kv-cache-memory-bytes", flags.kv_cache_memory_bytes,
                     "Memory of the KV cache, e.g. 2G");
  command
      .add_option("--num-gpu-blocks-override", flags.num_gpu_blocks_override, "Number of KV blocks")
      ->check(CLI::Range(1, 1 << 30));
  command.add_flag("--touch-kv-cache", flags.touch_kv_cache,
                   "Get all memory of the KV cache at the start, not as it is used");
  command.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching",
                   flags.enable_prefix_caching,
                   "Share the KV blocks of equal prompt beginnings (default: on)");
  command
      .add_option("--prefix-match-unit", flags.prefix_match_unit,
                  "Of a block that begins like a cached one, multiples of so many tokens are "
                  "copied; 0: whole blocks are shared only")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  command
      .add_option("--mamba-block-size", flags.mamba_block_size,
                  "Models with recurrent state: tokens from one prefix cache entry to the next, a "
                  "multiple of --block-size (default: about 256)")
      ->check(CLI::Range(8, 1 << 20));
  command.add_option("--state-cache-memory-bytes", flags.state_cache_memory_bytes,
                     "Memory of the prefix cache's recurrent states, e.g. 512M; 0: none");
  accept_flag(command, "--enforce-eager", "there are no graphs on a CPU");
  accept_flag(command, "--enable-chunked-prefill", "prompts are always chunked");
  command.add_option("--chat-template", flags.chat_template,
                     "Jinja template: a file, or the text itself");
  command.add_option("--seed", flags.seed, "Seed of the seeds of requests that bring none")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->capture_default_str();
}

Result<std::optional<std::int64_t>> parse_max_model_len(const std::string& text) {
  if (text.empty() || text == "auto" || text == "-1") return std::optional<std::int64_t>{};
  const std::optional<Scaled> scaled = split_number(text);
  double factor = 0;
  if (scaled) {
    const std::string& s = scaled->suffix;
    factor = s.empty()  ? 1
             : s == "k" ? 1e3
             : s == "K" ? 1024
             : s == "m" ? 1e6
             : s == "M" ? 1024.0 * 1024
                        : 0;
  }
  const double value = scaled ? scaled->number * factor : 0;
  if (value < 1 || value > 1e9 || value != std::floor(value))
    return field_error(
        "--max-model-len",
        "--max-model-len '{}' is not a length: use a number, 4k (4000), 4K (4096) or auto", text);
  return std::optional<std::int64_t>(static_cast<std::int64_t>(value));
}

Result<std::int64_t> parse_bytes(const std::string& flag, const std::string& text) {
  const std::optional<Scaled> scaled = split_number(text);
  double factor = 0;
  if (scaled) {
    std::string s = scaled->suffix;
    if (s.ends_with("iB"))
      s.resize(s.size() - 2);
    else if (s.ends_with("B"))
      s.resize(s.size() - 1);
    factor = s.empty()                ? 1
             : (s == "k" || s == "K") ? 1024.0
             : (s == "m" || s == "M") ? 1048576.0
             : (s == "g" || s == "G") ? 1073741824.0
             : (s == "t" || s == "T") ? 1099511627776.0
                                      : 0;
  }
  const double value = scaled ? scaled->number * factor : 0;
  if (value < 1 || value > 9e18)
    return field_error(flag, "{} '{}' is not a size: use bytes, or 512M, 2G", flag, text);
  return static_cast<std::int64_t>(value);
}

Result<DType> resolve_kv_dtype(const std::string& text, ComputeDType compute, DType stored,
                               bool is_gguf, bool prefers_bf16) {
  if (text == "float32") return DType::kF32;
  if (text == "bfloat16") return DType::kBF16;
  if (text == "float16") return DType::kF16;
  if (text == "int8") return DType::kI8;
  if (text != "auto")
    return field_error("--kv-cache-dtype",
                       "--kv-cache-dtype '{}' is not known: use auto, float32, bfloat16, "
                       "float16 or int8",
                       text);
  if (compute == ComputeDType::kFloat32) return DType::kF32;
  if (compute == ComputeDType::kFloat16) return DType::kF16;
  if (compute == ComputeDType::kBFloat16) return DType::kBF16;
  if (prefers_bf16) return DType::kBF16;
  return is_gguf || stored == DType::kF16 ? DType::kF16 : DType::kBF16;
}

}  // namespace quire
