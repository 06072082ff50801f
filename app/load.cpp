#include "app/load.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <utility>

#include "app/gguf_vocab.h"
#include "app/load_checks.h"
#include "app/open_files.h"
#include "app/resolve_model.h"
#include "base/clock.h"
#include "base/cpu_topology.h"
#include "base/log.h"
#include "model/registry.h"
#include "weights/gguf_file.h"

namespace quire {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr const char* kDefaultModelFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

// Logs "stage: what (0.123 s)" when it goes.
class Stage {
 public:
  template <class... Args>
  void done(fmt::format_string<Args...> format, Args&&... args) {
    const double now = now_s();
    log_info("{} ({:.3f} s)", fmt::format(format, std::forward<Args>(args)...), now - begin_);
    begin_ = now;
  }

 private:
  double begin_ = now_s();
};

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const ModelFiles& files) {
  if (files.is_gguf && files.tokenizer_json.empty()) {
    QUIRE_ASSIGN(const VocabSpec spec, read_gguf_vocab(*files.gguf));
    return Tokenizer::from_vocab(spec);
  }
  if (files.tokenizer_json.empty())
    return make_error(ErrorCode::kBadFile,
                      "{}: no tokenizer.json; fetch the model's tokenizer files into the folder, "
                      "or name one with "
                      "--tokenizer",
                      files.path);
  Result<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::from_json(files.tokenizer_json, files.tokenizer_config_json);
  if (!tokenizer)
    return make_error(tokenizer.error().code, "{}: {}", files.path, tokenizer.error().message);
  return tokenizer;
}

// Tensors that the model doesn't look at are worth a warning: the file may mean more than its
// configuration says.
Result<std::unique_ptr<Model>> make_network(const std::string& path, const LoadedModel& model,
                                            Backend& backend) {
  Result<std::unique_ptr<Model>> network = create_model(model.config, *model.weights, backend);
  if (!network) return make_error(network.error().code, "{}: {}", path, network.error().message);
  if (const Status used = model.weights->check_all_used(); !used)
    log_warning("{}: {}", path, used.error().message);
  return network;
}

// --chat-template wins over the model's own; a value that names no file is the template itself.
Result<std::string> template_source(const std::string& flag, const ModelFiles& files) {
  if (flag.empty()) return files.chat_template;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(flag, ignored)) {
    std::ifstream in(flag, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    if (!in)
      return make_error(ErrorCode::kInvalidArgument, "--chat-template: cannot read {}", flag);
    return text.str();
  }
  if (flag.find('{') == std::string::npos)
    return make_error(
        ErrorCode::kInvalidArgument,
        "--chat-template: no such file: {} (and no template text, which has {{{{ }}}})", flag);
  return flag;
}

struct TextParts {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // null: the model has none
};

Result<TextParts> make_text_parts(const ModelFiles& files, const std::string& template_flag,
                                  const std::string& source) {
  Stage stage;
  TextParts parts;
  QUIRE_ASSIGN(parts.tokenizer, make_tokenizer(files));
  if (!source.empty()) {
    auto made = ChatTemplate::create(source, parts.tokenizer->special());
    if (!made)
      return make_error(made.error().code, "{}: {}",
                        template_flag.empty() ? files.path : "--chat-template",
                        made.error().message);
    parts.chat_template = *std::move(made);
  }
  stage.done("tokenizer: {} tokens, {}", parts.tokenizer->vocab_size(),
             parts.chat_template ? "with a chat template" : "no chat template");
  return parts;
}

std::vector<TokenId> merge_end_ids(const ModelConfig& config, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids = config.eos_ids;
  const std::vector<TokenId>& more = tokenizer.special().end_ids;
  ids.insert(ids.end(), more.begin(), more.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<KvSizingOptions> sizing_options(const EngineFlags& flags) {
  KvSizingOptions options;
  options.memory_utilization = flags.gpu_memory_utilization;
  if (flags.kv_cache_memory_bytes) {
    QUIRE_ASSIGN(options.kv_cache_bytes,
                 parse_bytes("--kv-cache-memory-bytes", *flags.kv_cache_memory_bytes));
  }
  if (flags.state_cache_memory_bytes) {
    QUIRE_ASSIGN(options.snapshot_bytes,
                 parse_bytes("--state-cache-memory-bytes", *flags.state_cache_memory_bytes));
  }
  options.num_blocks_override = flags.num_gpu_blocks_override;
  options.max_num_seqs = flags.max_num_seqs;
  options.max_step_tokens = flags.max_num_batched_tokens;
  return options;
}

// Before the weights are packed, which may take a while: what is wrong whatever they are.
Status check_sizes(const EngineFlags& flags, const ModelConfig& config) {
  QUIRE_TRY(sizing_options(flags));
  QUIRE_ASSIGN(const std::optional<std::int64_t> asked, parse_max_model_len(flags.max_model_len));
  if (asked && *asked > config.max_position) {
    return field_error("--max-model-len",
                       "--max-model-len {} is longer than the model's own context of {} tokens",
                       *asked, config.max_position);
  }
  if (flags.mamba_block_size.value_or(0) % flags.block_size != 0) {
    return field_error("--mamba-block-size",
                       "--mamba-block-size {} is not a multiple of --block-size {}",
                       *flags.mamba_block_size, flags.block_size);
  }
  return {};
}

// Sets the interval; returns how many snapshots of recurrent state there are.
Result<std::int32_t> size_snapshots(LoadedModel& model, const EngineFlags& flags,
                                    std::int64_t state_bytes) {
  constexpr std::int32_t kDefaultInterval = 256;
  const std::int32_t block = flags.block_size;
  model.snapshot_interval =
      flags.mamba_block_size.value_or((kDefaultInterval + block - 1) / block * block);
  if (!flags.enable_prefix_caching) return 0;
  QUIRE_ASSIGN(KvSizingOptions options, sizing_options(flags));
  options.max_model_len = model.config.max_position;
  return num_state_snapshots(state_bytes, model.snapshot_interval, options, read_memory_limits());
}

// Sets max_model_len and the KV cache's size.
Status size_memory(LoadedModel& model, const EngineFlags& flags, const KvGeometry& geometry,
                   std::int64_t model_bytes) {
  QUIRE_ASSIGN(KvSizingOptions options, sizing_options(flags));
  const MemoryLimits memory = read_memory_limits();
  QUIRE_ASSIGN(const std::optional<std::int64_t> asked, parse_max_model_len(flags.max_model_len));
  const std::int64_t own = model.config.max_position;
  model.max_model_len = asked.value_or(own);
  if (flags.max_model_len == "auto" || flags.max_model_len == "-1")
    model.max_model_len = longest_context(geometry, options, memory, model_bytes, own);
  if (model.max_model_len < 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "no memory is left for the KV cache after {:.1f} MiB of weights",
                      static_cast<double>(model_bytes) / kMiB);
  options.max_model_len = model.max_model_len;
  QUIRE_ASSIGN(model.kv, size_kv_cache(geometry, options, memory, model_bytes));
  return {};
}

}  // namespace

Result<std::string> default_model_path() {
  std::array<char, 4096> buffer{};
  const ssize_t length = readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  const std::filesystem::path self =
      length > 0 ? std::string(buffer.data(), static_cast<std::size_t>(length)) : "";
  const std::filesystem::path beside =
      self.parent_path().parent_path() / "models" / kDefaultModelFile;
  for (const std::filesystem::path& candidate :
       {std::filesystem::path("models") / kDefaultModelFile, beside}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(candidate, ignored)) return candidate.string();
  }
  return make_error(ErrorCode::kNotFound,
                    "no MODEL given and the default model is not there: fetch it with `make model` "
                    "(to {}), or name a GGUF file or a model folder",
                    beside.string());
}

Result<LoadedModel> load_model(const EngineFlags& flags) {
  Stage stage;
  LoadedModel model;
  model.name = flags.model;
  if (model.name.empty()) {
    QUIRE_ASSIGN(model.name, default_model_path());
  }
  if (flags.block_size % 8 != 0)
    return field_error("--block-size", "--block-size {} is not a multiple of 8", flags.block_size);
  CpuBackendOptions backend_options;
  backend_options.kernels = flags.kernels;
  backend_options.threads = flags.threads;
  backend_options.dtype = parse_compute_dtype(flags.dtype).value_or(ComputeDType::kAuto);

  QUIRE_ASSIGN(const std::string path, resolve_model(model.name, flags.hub, flags.open));
  if (path != model.name) stage.done("model {}: {}", model.name, path);
  std::string tokenizer;
  if (!flags.tokenizer.empty()) {
    QUIRE_ASSIGN(tokenizer, resolve_tokenizer(flags.tokenizer, flags.hub));
  }
  QUIRE_ASSIGN(ModelFiles files, open_files(path, flags.open, flags.seed, tokenizer));
  QUIRE_TRY(check_generation(files.config.generation, files.config.vocab_size, flags.open.options));
  QUIRE_TRY(apply_quantization(flags.quantization, files.config.stored_dtype, files.is_gguf,
                               &files.config.quantization));
  QUIRE_ASSIGN(model.pooling, read_pooling_config(files));
  model.config = std::move(files.config);
  model.is_gguf = files.is_gguf;
  model.weights = std::move(files.weights);
  stage.done("model file {}: {} ({}), {:.1f} MiB", files.path, model.config.source_architecture,
             flags.open.load_format == "dummy" ? "dummy weights"
             : files.is_gguf                   ? "GGUF"
                                               : "safetensors",
             static_cast<double>(files.file_bytes) / kMiB);

  QUIRE_TRY(check_sizes(flags, model.config));
  QUIRE_ASSIGN(const std::string source, template_source(flags.chat_template, files));
  // Meanwhile: a vocabulary of 262k tokens takes as long as packing a small model. Leaving early
  // waits for it.
  std::future<Result<TextParts>> text = std::async(
      std::launch::async, [&] { return make_text_parts(files, flags.chat_template, source); });
  QUIRE_ASSIGN(std::unique_ptr<Backend> backend, make_cpu_backend(backend_options));
  const std::string device = backend->description();
  QUIRE_ASSIGN(std::unique_ptr<Model> network, make_network(files.path, model, *backend));
  stage.done("weights: {:.1f} MiB packed for {}", static_cast<double>(network->weight_bytes) / kMiB,
             device);
  if (flags.check_weights) {
    QUIRE_TRY(check_finite(*model.weights));
    stage.done("weights: no NaN, no infinity");
  }
  QUIRE_ASSIGN(TextParts parts, text.get());
  QUIRE_TRY(check_vocabulary(*parts.tokenizer, model.config.vocab_size));
  model.tokenizer = std::move(parts.tokenizer);
  model.chat_template = std::move(parts.chat_template);
  model.end_ids = merge_end_ids(model.config, *model.tokenizer);

  const QuantConfig& quantization = model.config.quantization;
  const bool quantized =
      model.is_gguf ? model.config.stored_dtype != DType::kF16
                    : quantization.method != QuantMethod::kNone || quantization.online_bits > 0;
  const bool prefers_bf16 = quantized && backend->prefers_bf16_kv();
  QUIRE_ASSIGN(const DType kv_dtype,
               resolve_kv_dtype(flags.kv_cache_dtype, backend_options.dtype,
                                model.config.stored_dtype, model.is_gguf, prefers_bf16));
  const KvGeometry geometry = network->kv_geometry(flags.block_size, kv_dtype);
  QUIRE_ASSIGN(const std::int32_t num_snapshots,
               size_snapshots(model, flags, network->state_bytes_per_slot));
  const std::int64_t snapshot_bytes = network->state_bytes_per_slot * num_snapshots;
  const std::int64_t state_bytes =
      network->state_bytes_per_slot * flags.max_num_seqs + snapshot_bytes;
  QUIRE_TRY(size_memory(model, flags, geometry, network->weight_bytes + state_bytes));
  ModelRunner::Options runner;
  runner.max_num_batched_tokens = flags.max_num_batched_tokens;
  runner.max_num_seqs = flags.max_num_seqs;
  runner.num_snapshots = num_snapshots;
  runner.geometry = geometry;
  runner.num_blocks = model.kv.num_blocks;
  model.runner =
      std::make_unique<ModelRunner>(std::move(backend), std::move(network), std::move(runner));
  if (flags.touch_kv_cache) model.runner->touch_kv_cache();
  model.runner->warm_up();
  const bool recurrent = model.runner->capacity().recurrent_state;
  model.prefix_caching = flags.enable_prefix_caching && (!recurrent || num_snapshots > 0);
  if (recurrent) {
    stage.done("recurrent state: {:.1f} MiB for {} sequences",
               static_cast<double>(state_bytes - snapshot_bytes) / kMiB, flags.max_num_seqs);
  }
  if (recurrent && model.prefix_caching) {
    stage.done("prefix cache of states: {:.1f} MiB for {} snapshots, one every {} tokens",
               static_cast<double>(snapshot_bytes) / kMiB, num_snapshots, model.snapshot_interval);
  } else if (recurrent) {
    stage.done("no prefix caching: {}", flags.enable_prefix_caching
                                            ? "no memory is given to snapshots of the state"
                                            : "--no-enable-prefix-caching");
  }
  if (model.kv.num_blocks.empty()) {
    stage.done("no KV cache: no layer attends; sequences of up to {} tokens", model.max_model_len);
    return model;
  }
  stage.done(
      "KV cache: {:.1f} MiB in {} blocks of {} tokens ({}), {:.1f} sequences of {} tokens fit",
      static_cast<double>(model.kv.bytes) / kMiB, fmt::join(model.kv.num_blocks, " + "),
      flags.block_size, dtype_name(kv_dtype), model.kv.full_sequences, model.max_model_len);
  return model;
}

Result<std::unique_ptr<Engine>> start_engine(LoadedModel& model, const EngineFlags& flags,
                                             EngineObserver* observer) {
  EngineOptions options;
  options.scheduler.max_num_batched_tokens = flags.max_num_batched_tokens;
  options.scheduler.max_num_seqs = flags.max_num_seqs;
  options.scheduler.max_model_len = static_cast<std::int32_t>(model.max_model_len);
  options.scheduler.kv.block_size = flags.block_size;
  options.scheduler.kv.enable_prefix_caching = model.prefix_caching;
  options.scheduler.kv.prefix_match_unit = flags.prefix_match_unit;
  options.scheduler.kv.recurrent_state = model.runner->capacity().recurrent_state;
  options.scheduler.kv.num_snapshots = model.runner->capacity().num_snapshots;
  options.scheduler.kv.snapshot_interval = model.snapshot_interval;
  for (std::size_t g = 0; g < model.kv.num_blocks.size(); ++g) {
    const KvGroup& group = model.runner->capacity().geometry.groups[g];
    options.scheduler.kv.groups.push_back({model.kv.num_blocks[g], group.window, false});
  }
  set_scheduler_options(flags.scheduling, options.scheduler);
  set_queue_options(flags.scheduling, options);
  return std::make_unique<Engine>(std::move(options), std::move(model.runner),
                                  model.tokenizer.get(), observer);
}

}  // namespace quire
