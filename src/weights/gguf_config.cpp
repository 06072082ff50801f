// A model's configuration from GGUF metadata and tensor shapes, for the llama architecture (which
// holds Llama, Mistral, SmolLM2 and their kin).
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "weights/checked.h"
#include "weights/config_check.h"
#include "weights/gguf_file.h"
#include "weights/model_config.h"
#include "weights/weight_source.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kArchitectures = {"llama", "mistral"};

// Look-ups below "<architecture>.".
class ArchFields {
 public:
  ArchFields(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  const std::string& name() const { return file_.name(); }
  const GgufFile& file() const { return file_; }

  // *out = the integer; the fallback, or an error, when absent. A per-layer array must be of one
  // value.
  template <class T>
  Status read_int(std::string_view suffix, std::optional<std::int64_t> fallback, T* out) const {
    const GgufValue* value = file_.find(key(suffix));
    std::optional<std::int64_t> number = fallback;
    if (value != nullptr) {
      QUIRE_ASSIGN(number, one_int(suffix));
    }
    if (!number) {
      return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is missing", name(), key(suffix));
    }
    if (!std::in_range<T>(*number)) {
      return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is {}, the limit is {}", name(),
                        key(suffix), *number, std::numeric_limits<T>::max());
    }
    *out = static_cast<T>(*number);
    return {};
  }

  Status read_float(std::string_view suffix, std::optional<double> fallback, double* out) const {
    std::optional<double> number = file_.get_float(key(suffix));
    if (!number && file_.find(key(suffix)) == nullptr) number = fallback;
    if (!number || !std::isfinite(*number)) {
      return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is missing or not a number",
                        name(), key(suffix));
    }
    *out = *number;
    return {};
  }

 private:
  Result<std::int64_t> one_int(std::string_view suffix) const {
    if (const auto number = file_.get_int(key(suffix))) return *number;
    const GgufArray* array = file_.get_array(key(suffix));
    if (array == nullptr || array->ints.empty()) {
      return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is not an integer", name(),
                        key(suffix));
    }
    for (std::int64_t each : array->ints) {
      if (each != array->ints[0]) {
        return make_error(ErrorCode::kUnsupported,
                          "{}: metadata \"{}\" differs between layers ({} "
                          "and {}), which is not supported",
                          name(), key(suffix), array->ints[0], each);
      }
    }
    return array->ints[0];
  }

  const GgufFile& file_;
  std::string prefix_;
};

Result<std::string> find_architecture(const GgufFile& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) {
    return make_error(ErrorCode::kBadFile, "{}: metadata \"general.architecture\" is missing",
                      file.name());
  }
  std::string known;
  for (std::string_view each : kArchitectures) {
    if (each == *architecture) return std::string(each);
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  return make_error(ErrorCode::kUnsupported, "{}: architecture \"{}\" is not supported; known: {}",
                    file.name(), printable(*architecture), known);
}

TensorView find_tensor(const GgufFile& file, const std::string& name) {
  const auto found = file.tensors().find(name);
  return found == file.tensors().end() ? TensorView{} : found->second;
}

// The embedding has a row per token, named ones and padding.
Status read_vocab_size(const GgufFile& file, ModelConfig* config) {
  const TensorView embedding = find_tensor(file, "token_embd.weight");
  if (embedding.empty() || embedding.shape.rank() != 2) {
    return make_error(ErrorCode::kBadFile,
                      "{}: tensor \"token_embd.weight\" is missing or no matrix", file.name());
  }
  config->vocab_size = embedding.shape[0];
  const GgufArray* tokens = file.get_array("tokenizer.ggml.tokens");
  if (tokens != nullptr &&
      tokens->strings.size() > static_cast<std::uint64_t>(embedding.shape[0])) {
    return make_error(ErrorCode::kBadFile, "{}: {} tokens, but the embedding has {} rows",
                      file.name(), tokens->strings.size(), embedding.shape[0]);
  }
  return {};
}

Status read_sizes(const ArchFields& fields, ModelConfig* config) {
  QUIRE_TRY(fields.read_int("embedding_length", {}, &config->hidden_size));
  QUIRE_TRY(fields.read_int("feed_forward_length", {}, &config->intermediate_size));
  QUIRE_TRY(fields.read_int("block_count", {}, &config->num_layers));
  QUIRE_TRY(fields.read_int("attention.head_count", {}, &config->num_heads));
  if (config->num_heads < 1) {
    return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is {}; it must be positive",
                      fields.name(), fields.key("attention.head_count"), config->num_heads);
  }
  QUIRE_TRY(fields.read_int("attention.head_count_kv", config->num_heads, &config->num_kv_heads));
  const std::int64_t default_head = config->hidden_size / config->num_heads;
  QUIRE_TRY(fields.read_int("attention.key_length", default_head, &config->head_dim));
  std::int32_t value_dim = 0, experts = 0;
  QUIRE_TRY(fields.read_int("attention.value_length", config->head_dim, &value_dim));
  if (value_dim != config->head_dim) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: key size {} and value size {} differ, which is "
                      "not supported",
                      fields.name(), config->head_dim, value_dim);
  }
  QUIRE_TRY(fields.read_int("expert_count", 0, &experts));
  if (experts != 0) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: a mixture of {} experts, which is not supported", fields.name(),
                      experts);
  }
  QUIRE_TRY(fields.read_int("context_length", {}, &config->max_position));
  QUIRE_TRY(fields.read_int("attention.sliding_window", 0, &config->sliding_window));
  return fields.read_float("attention.layer_norm_rms_epsilon", {}, &config->norm_eps);
}

// rope_freqs.weight: [rotary_dim / 2] f32, how much slower each frequency turns (llama3 scaling).
Status read_freq_factors(const GgufFile& file, RopeConfig* rope) {
  const TensorView factors = find_tensor(file, "rope_freqs.weight");
  if (factors.empty()) return {};
  const std::int64_t wanted = rope->rotary_dim / 2;
  if (factors.shape != Shape{wanted} || factors.dtype != DType::kF32) {
    return make_error(ErrorCode::kBadFile,
                      "{}: tensor \"rope_freqs.weight\" is {} {}; F32 [{}] is "
                      "expected",
                      file.name(), dtype_name(factors.dtype), factors.shape.to_string(), wanted);
  }
  rope->freq_factors.resize(static_cast<std::size_t>(wanted));
  dequantize_row(factors, 0, rope->freq_factors.data());
  for (float factor : rope->freq_factors) {
    if (!(factor > 0 && std::isfinite(factor))) {
      return make_error(ErrorCode::kBadFile,
                        "{}: tensor \"rope_freqs.weight\" holds {}; factors "
                        "must be positive",
                        file.name(), factor);
    }
  }
  return {};
}

Status read_rope(const ArchFields& fields, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.interleaved = true;  // llama files have the rows of Q and K permuted for it
  QUIRE_TRY(fields.read_float("rope.freq_base", 10000.0, &rope.theta));
  QUIRE_TRY(fields.read_int("rope.dimension_count", config->head_dim, &rope.rotary_dim));
  const auto kind = fields.file().get_string(fields.key("rope.scaling.type"));
  double factor = 1.0;
  // Files before rope.scaling.* have the linear factor under an older key.
  QUIRE_TRY(fields.read_float("rope.scale_linear", 1.0, &factor));
  QUIRE_TRY(fields.read_float("rope.scaling.factor", factor, &factor));
  rope.kind_name = kind.value_or(factor == 1.0 ? "none" : "linear");
  if (rope.kind_name == "linear") {
    rope.kind = RopeConfig::Kind::kLinear;
    rope.factor = factor;
  } else if (rope.kind_name == "none") {
    rope.kind_name = "default";
  } else {
    rope.kind = RopeConfig::Kind::kUnsupported;
    return make_error(ErrorCode::kUnsupported,
                      "{}: RoPE kind \"{}\" is not supported; known: none, linear", fields.name(),
                      printable(rope.kind_name));
  }
  return {};
}

void read_special_ids(const GgufFile& file, ModelConfig* config) {
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = file.get_int(key)) add_eos_id(config, *id);
  }
  const auto bos = file.get_int("tokenizer.ggml.bos_token_id");
  if (bos && *bos >= 0 && *bos < config->vocab_size) config->bos_id = static_cast<TokenId>(*bos);
}

Status refuse_split(const GgufFile& file) {
  const auto parts = file.get_int("split.count");
  if (!parts || *parts <= 1) return {};
  return make_error(ErrorCode::kUnsupported,
                    "{}: one of {} parts of a split model; merge them first "
                    "(llama-gguf-split --merge)",
                    file.name(), *parts);
}

}  // namespace

Result<ModelConfig> parse_gguf_config(const GgufFile& file) {
  ModelConfig config;
  QUIRE_ASSIGN(config.source_architecture, find_architecture(file));
  config.architecture = "llama";
  QUIRE_TRY(refuse_split(file));
  const ArchFields fields(file, config.source_architecture);
  QUIRE_TRY(read_vocab_size(file, &config));
  QUIRE_TRY(read_sizes(fields, &config));
  QUIRE_TRY(read_rope(fields, &config));
  QUIRE_TRY(check_config(config, file.name()));
  QUIRE_TRY(read_freq_factors(file, &config.rope));
  const auto has = [&](const char* name) { return file.tensors().contains(name); };
  config.tied_embeddings = !has("output.weight");
  config.attention_bias = has("blk.0.attn_q.bias");
  config.attention_out_bias = has("blk.0.attn_output.bias");
  config.mlp_bias = has("blk.0.ffn_down.bias");
  read_special_ids(file, &config);
  return config;
}

}  // namespace quire
