#include "weights/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <map>

#include "weights/checked.h"
#include "weights/gguf_file.h"
#include "weights/hf_families.h"

namespace quire {
namespace {

template <class... Args>
void add_line(std::string* out, std::string_view label, fmt::format_string<Args...> format,
              Args&&... args) {
  fmt::format_to(std::back_inserter(*out), "{:<20}", fmt::format("{}:", label));
  fmt::format_to(std::back_inserter(*out), format, std::forward<Args>(args)...);
  out->push_back('\n');
}

// "134.5M": three or four figures and a unit, powers of 1000.
std::string short_count(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.2f}B", value / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f}M", value / 1e6);
  if (count >= 1'000) return fmt::format("{:.1f}K", value / 1e3);
  return fmt::format("{}", count);
}

std::string short_bytes(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= std::uint64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= std::uint64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.1f} KiB", value / 1024);
}

// "6 sliding_attention, 2 full_attention"
std::string layer_kinds(const ModelConfig& config) {
  std::map<std::string_view, int> counts;
  for (const std::string& type : config.layer_types) ++counts[type];
  std::string text;
  for (const auto& [type, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, type);
  }
  return text;
}

std::string rope_text(const RopeConfig& rope) {
  if (rope.rotary_dim == 0) return "none";
  return fmt::format("{}, base {}, {} dimensions{}{}", rope.kind_name, rope.theta, rope.rotary_dim,
                     rope.factor == 1.0 ? "" : fmt::format(", factor {}", rope.factor),
                     rope.freq_factors.empty() ? "" : ", frequency factors from the file");
}

// The first of the spellings that the configuration has; 0: none of them.
std::int64_t any_integer(const ModelConfig& config, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (config.fields.has(name)) return config.fields.integer(name, 0);
  }
  return 0;
}

void add_experts(std::string* out, const ModelConfig& config) {
  const std::int64_t experts =
      any_integer(config, {"num_experts", "num_local_experts", "n_routed_experts",
                           "moe_num_experts", "ffn_config.moe_num_experts"});
  if (experts <= 1) return;
  add_line(
      out, "experts", "{}, {} per token", experts,
      any_integer(config, {"num_experts_per_tok", "moe_k", "moe_topk", "ffn_config.moe_top_k"}));
}

void add_config(std::string* out, const ModelConfig& config) {
  add_line(out, "architecture", "{} ({})", config.architecture, config.source_architecture);
  add_line(out, "layers", "{}{}{}", config.num_layers, config.layer_types.empty() ? "" : ": ",
           layer_kinds(config));
  add_line(out, "hidden size", "{}", config.hidden_size);
  add_line(out, "intermediate size", "{}", config.intermediate_size);
  add_line(out, "attention heads", "{} query, {} key-value, of {}", config.num_heads,
           config.num_kv_heads, config.head_dim);
  add_line(out, "sliding window", "{}",
           config.sliding_window == 0 ? "none" : fmt::format("{}", config.sliding_window));
  add_line(out, "biases", "attention {}, attention output {}, mlp {}", config.attention_bias,
           config.attention_out_bias, config.mlp_bias);
  add_line(out, "context length", "{}", config.max_position);
  add_line(out, "rope", "{}", rope_text(config.rope));
  if (config.sliding_rope) {
    add_line(out, "sliding rope", "{}", rope_text(*config.sliding_rope));
  }
  add_experts(out, config);
  add_line(out, "vocabulary", "{} tokens{}", config.vocab_size,
           config.tied_embeddings ? ", head tied to the embedding" : "");
  add_line(out, "end tokens", "{}", fmt::join(config.eos_ids, " "));
  add_line(out, "begin token", "{}",
           config.bos_id ? fmt::format("{}", *config.bos_id) : std::string("none"));
}

void add_dtypes(std::string* out, const WeightSource& weights) {
  struct Sum {
    std::int64_t tensors = 0, bytes = 0;
  };
  std::map<std::string_view, Sum> sums;
  for (const std::string& name : weights.names()) {
    const TensorView view = weights.find(name);
    Sum& sum = sums[dtype_name(view.dtype)];
    ++sum.tensors;
    sum.bytes += view.bytes();
  }
  for (const auto& [dtype, sum] : sums) {
    add_line(out, fmt::format("type {}", dtype), "{} tensors, {}", sum.tensors,
             short_bytes(static_cast<std::uint64_t>(sum.bytes)));
  }
}

// Bytes of K and V of one token in a 16-bit cache. Layers of a state space, a convolution or linear
// attention keep nothing per token; latent attention keeps the latent and the rotary key.
std::int64_t kv_bytes_per_token(const ModelConfig& config) {
  if (!hf_family(config.architecture).attention) return 0;
  std::int64_t layers = config.num_layers;
  for (const std::string& type : config.layer_types) {
    if (type == "mamba" || type == "conv" || type == "linear_attention") --layers;
  }
  const std::int64_t latent = config.fields.integer("kv_lora_rank", 0);
  if (latent > 0) return 2 * layers * (latent + config.rope.rotary_dim);
  return 2 * 2 * layers * config.num_kv_heads * config.head_dim;
}

void add_memory(std::string* out, const ModelFiles& files) {
  const auto per_token = static_cast<std::uint64_t>(kv_bytes_per_token(files.config));
  const std::uint64_t full = per_token * static_cast<std::uint64_t>(files.config.max_position);
  add_line(out, "memory needed",
           "{} of weights and {} per full sequence of {} tokens ({} bytes of KV "
           "per token at 16 bits)",
           short_bytes(files.file_bytes), short_bytes(full), files.config.max_position, per_token);
}

}  // namespace

std::int64_t count_parameters(const WeightSource& weights) {
  std::int64_t parameters = 0;
  for (const std::string& name : weights.names()) parameters += weights.find(name).shape.elements();
  return parameters;
}

std::string describe_model(const ModelFiles& files, const InspectOptions& options) {
  std::string out;
  add_line(&out, "model", "{}", files.path);
  add_line(&out, "format", "{}, {}",
           files.is_gguf ? fmt::format("GGUF version {}", files.gguf->version())
                         : std::string("Hugging Face folder (safetensors)"),
           short_bytes(files.file_bytes));
  add_config(&out, files.config);
  const std::int64_t parameters = count_parameters(*files.weights);
  add_line(&out, "quantization", "{}",
           files.is_gguf ? "by tensor, see the types" : files.config.quantization.describe());
  add_line(&out, "parameters", "{} ({})", short_count(parameters), parameters);
  add_dtypes(&out, *files.weights);
  const std::string& text = files.chat_template;
  add_line(&out, "chat template", "{}",
           text.empty() ? "none" : printable(std::string_view(text).substr(0, text.find('\n'))));
  add_memory(&out, files);
  if (!options.list_tensors) return out;
  for (const std::string& name : files.weights->names()) {
    const TensorView view = files.weights->find(name);
    fmt::format_to(std::back_inserter(out), "{}  {}  {}  {} bytes\n", printable(name),
                   dtype_name(view.dtype), view.shape.to_string(), view.bytes());
  }
  return out;
}

}  // namespace quire
