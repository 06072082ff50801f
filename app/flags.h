// The command line's values: what `serve`, `generate`, `chat` and the benchmark share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/scheduler_flags.h"
#include "base/result.h"
#include "hub/hub_settings.h"
#include "tensor/dtype.h"
#include "weights/weight_source.h"

namespace CLI {  // its header costs seconds: only files that name flags include it
class App;
}

namespace quire {

// Flags that say what of a model is read, and from where.
struct OpenFlags {
  OpenOptions options;  // --hf-overrides, --generation-config, --override-generation-config
  std::string load_format = "auto";  // "dummy": weights are made up from config.json
};

// Flags that say what is loaded and how it computes; names are vLLM's where it has them.
struct EngineFlags {
  std::string model;  // positional or --model; empty: the default model
  HubFlags hub;       // for a model that is named as ORG/NAME
  OpenFlags open;
  std::string tokenizer;       // a folder, a tokenizer.json or ORG/NAME; empty: the model's own
  bool check_weights = false;  // NaN and infinities end the start
  std::string quantization;    // what the file must have, or int8, int4; empty: anything
  std::string dtype = "auto";
  std::string kv_cache_dtype = "auto";
  std::string kernels = "auto";
  int threads = 0;
  std::int32_t block_size = 32;
  std::string max_model_len;  // "4096", "4k", "auto"; empty: the model's own
  std::int32_t max_num_batched_tokens = 512;
  std::int32_t max_num_seqs = 128;
  SchedulerFlags scheduling;  // of `serve`
  std::optional<double> gpu_memory_utilization;
  std::optional<std::string> kv_cache_memory_bytes;  // "2G"
  bool touch_kv_cache = false;
  std::optional<std::int32_t> num_gpu_blocks_override;
  bool enable_prefix_caching = true;
  std::int32_t prefix_match_unit = 8;            // tokens
  std::optional<std::int32_t> mamba_block_size;  // tokens from a state's snapshot to the next
  std::optional<std::string> state_cache_memory_bytes;  // of these snapshots
  std::string chat_template;                            // a file, or the template itself
  std::uint64_t seed = 0;
};

// --revision, --download-dir, --hf-token.
void add_hub_flags(CLI::App& command, HubFlags& flags);
// Those of OpenFlags.
void add_open_flags(CLI::App& command, OpenFlags& flags);
void add_engine_flags(CLI::App& command, EngineFlags& flags);

// "4096", "4k" (4000), "4K" (4096), "25.6k"; nullopt for "auto", "-1" or empty.
Result<std::optional<std::int64_t>> parse_max_model_len(const std::string& text);
// "1073741824", "512M", "2G", "1.5GiB".
Result<std::int64_t> parse_bytes(const std::string& flag, const std::string& text);
// Storage type of K and V: "auto" follows the compute dtype and the file (f32 under float32; f16
// for f16 models and GGUF, unless the backend prefers bf16; else bf16).
Result<DType> resolve_kv_dtype(const std::string& text, ComputeDType compute, DType stored,
                               bool is_gguf, bool prefers_bf16);

}  // namespace quire
