// config.json and generation_config.json of a Hugging Face folder. Defaults are those of
// transformers' LlamaConfig and MistralConfig.
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "weights/checked.h"
#include "weights/config_check.h"
#include "weights/json_fields.h"
#include "weights/model_config.h"

namespace quire {
namespace json = boost::json;

namespace {

struct Family {
  std::string_view source_architecture;  // config.json's "architectures"
  std::string_view model_type;
  std::string_view architecture;  // registry key
  bool is_mistral;
};
constexpr std::array<Family, 2> kFamilies = {{
    {"LlamaForCausalLM", "llama", "llama", false},
    {"MistralForCausalLM", "mistral", "llama", true},
}};

Result<Family> find_family(const JsonFields& fields) {
  std::string source;
  if (const json::value* list = fields.find("architectures"); list != nullptr && list->is_array() &&
                                                              !list->get_array().empty() &&
                                                              list->get_array()[0].is_string()) {
    source = std::string(list->get_array()[0].get_string());
  }
  QUIRE_ASSIGN(const auto model_type, fields.get_string("model_type"));
  std::string known;
  for (const Family& family : kFamilies) {
    if (source.empty() ? model_type == family.model_type : source == family.source_architecture) {
      return family;
    }
    known += (known.empty() ? "" : ", ") + std::string(family.source_architecture);
  }
  return make_error(ErrorCode::kUnsupported, "{}: architecture \"{}\" is not supported; known: {}",
                    fields.name(), printable(source.empty() ? model_type.value_or("") : source),
                    known);
}

// *out = the integer, the fallback when absent, or an error when absent without fallback.
template <class T>
Status read_int(const JsonFields& fields, std::string_view key,
                std::optional<std::int64_t> fallback, T* out) {
  QUIRE_ASSIGN(std::optional<std::int64_t> value, fields.get_int(key));
  if (!value) value = fallback;
  if (!value) return make_error(ErrorCode::kBadFile, "{}: \"{}\" is missing", fields.name(), key);
  if (!std::in_range<T>(*value)) {
    return make_error(ErrorCode::kBadFile, "{}: \"{}\" is {}, the limit is {}", fields.name(), key,
                      *value, std::numeric_limits<T>::max());
  }
  *out = static_cast<T>(*value);
  return {};
}

Status read_number(const JsonFields& fields, std::string_view key, double* out) {
  QUIRE_ASSIGN(const auto value, fields.get_number(key));
  if (value) *out = *value;
  return {};
}

Status read_sizes(const JsonFields& fields, const Family& family, ModelConfig* config) {
  QUIRE_TRY(read_int(fields, "vocab_size", {}, &config->vocab_size));
  QUIRE_TRY(read_int(fields, "hidden_size", {}, &config->hidden_size));
  QUIRE_TRY(read_int(fields, "intermediate_size", {}, &config->intermediate_size));
  QUIRE_TRY(read_int(fields, "num_hidden_layers", {}, &config->num_layers));
  QUIRE_TRY(read_int(fields, "num_attention_heads", {}, &config->num_heads));
  if (config->num_heads < 1) {
    return make_error(ErrorCode::kBadFile, "{}: \"num_attention_heads\" is {}; it must be positive",
                      fields.name(), config->num_heads);
  }
  // An explicit null means as many as query heads; MistralConfig's default when absent is 8.
  const bool kv_default = family.is_mistral && !fields.has("num_key_value_heads");
  QUIRE_TRY(read_int(fields, "num_key_value_heads", kv_default ? 8 : config->num_heads,
                     &config->num_kv_heads));
  QUIRE_ASSIGN(const auto head_dim, fields.get_int("head_dim"));
  if (!head_dim && config->hidden_size % config->num_heads != 0) {
    return make_error(
        ErrorCode::kBadFile,
        "{}: hidden_size {} is not a multiple of num_attention_heads {} and there is no "
        "head_dim",
        fields.name(), config->hidden_size, config->num_heads);
  }
  QUIRE_TRY(
      read_int(fields, "head_dim", config->hidden_size / config->num_heads, &config->head_dim));
  QUIRE_TRY(read_int(fields, "max_position_embeddings", family.is_mistral ? 131072 : 2048,
                     &config->max_position));
  return {};
}

Status read_options(const JsonFields& fields, const Family& family, ModelConfig* config) {
  config->norm_eps = 1e-6;
  QUIRE_TRY(read_number(fields, "rms_norm_eps", &config->norm_eps));
  QUIRE_ASSIGN(const auto activation, fields.get_string("hidden_act"));
  config->activation = activation.value_or("silu");
  if (config->activation == "swish") config->activation = "silu";
  if (config->activation != "silu") {
    return make_error(ErrorCode::kUnsupported,
                      "{}: hidden_act \"{}\" is not supported; known: silu", fields.name(),
                      printable(config->activation));
  }
  QUIRE_ASSIGN(const auto tied, fields.get_bool("tie_word_embeddings"));
  config->tied_embeddings = tied.value_or(false);
  if (family.is_mistral) {
    // Mistral has no biases; its window is on when absent, and null turns it off.
    return read_int(fields, "sliding_window", fields.has("sliding_window") ? 0 : 4096,
                    &config->sliding_window);
  }
  QUIRE_ASSIGN(const auto attention_bias, fields.get_bool("attention_bias"));
  config->attention_bias = config->attention_out_bias = attention_bias.value_or(false);
  QUIRE_ASSIGN(const auto mlp_bias, fields.get_bool("mlp_bias"));
  config->mlp_bias = mlp_bias.value_or(false);
  return {};
}

// The kind and its numbers. scaling: rope_scaling, or the newer rope_parameters.
Status read_rope_kind(const JsonFields& scaling, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  QUIRE_TRY(read_number(scaling, "rope_theta", &rope.theta));
  QUIRE_ASSIGN(auto kind, scaling.get_string("rope_type"));
  if (!kind) {
    QUIRE_ASSIGN(kind, scaling.get_string("type"));
  }
  rope.kind_name = kind.value_or("default");
  if (rope.kind_name == "default") return {};
  const bool is_llama3 = rope.kind_name == "llama3";
  if (!is_llama3 && rope.kind_name != "linear") {
    rope.kind = RopeConfig::Kind::kUnsupported;
    return make_error(ErrorCode::kUnsupported,
                      "{}: RoPE kind \"{}\" is not supported; known: default, linear, llama3",
                      scaling.name(), printable(rope.kind_name));
  }
  rope.kind = is_llama3 ? RopeConfig::Kind::kLlama3 : RopeConfig::Kind::kLinear;
  rope.factor = 0;  // required: check_config refuses 0
  QUIRE_TRY(read_number(scaling, "factor", &rope.factor));
  if (!is_llama3) return {};
  QUIRE_TRY(read_number(scaling, "low_freq_factor", &rope.low_freq_factor));
  QUIRE_TRY(read_number(scaling, "high_freq_factor", &rope.high_freq_factor));
  rope.original_max_position = static_cast<double>(config->max_position);
  QUIRE_TRY(read_number(scaling, "original_max_position_embeddings", &rope.original_max_position));
  if (!(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor &&
        rope.original_max_position >= 1)) {
    return make_error(ErrorCode::kBadFile,
                      "{}: llama3 RoPE needs 0 < low_freq_factor < high_freq_factor and a positive "
                      "original_max_position_embeddings; they are {}, {} and {}",
                      scaling.name(), rope.low_freq_factor, rope.high_freq_factor,
                      rope.original_max_position);
  }
  return {};
}

Status read_rope(const JsonFields& fields, ModelConfig* config) {
  QUIRE_TRY(read_number(fields, "rope_theta", &config->rope.theta));
  double rotary_share = 1.0;
  QUIRE_TRY(read_number(fields, "partial_rotary_factor", &rotary_share));
  QUIRE_ASSIGN(const json::object* scaling, fields.get_object("rope_parameters"));
  if (scaling == nullptr) {
    QUIRE_ASSIGN(scaling, fields.get_object("rope_scaling"));
  }
  if (scaling != nullptr) {
    const JsonFields scaling_fields(*scaling, fields.name());
    QUIRE_TRY(read_number(scaling_fields, "partial_rotary_factor", &rotary_share));
    QUIRE_TRY(read_rope_kind(scaling_fields, config));
  }
  if (!(rotary_share > 0 && rotary_share <= 1)) {
    return make_error(ErrorCode::kBadFile, "{}: partial_rotary_factor is {}; it must be in (0, 1]",
                      fields.name(), rotary_share);
  }
  config->rope.rotary_dim = static_cast<std::int32_t>(config->head_dim * rotary_share);
  return {};
}

Status read_dtype(const JsonFields& fields, ModelConfig* config) {
  QUIRE_ASSIGN(auto dtype, fields.get_string("dtype"));
  if (!dtype) {
    QUIRE_ASSIGN(dtype, fields.get_string("torch_dtype"));
  }
  if (!dtype || *dtype == "float32") {
    config->stored_dtype = DType::kF32;
  } else if (*dtype == "bfloat16") {
    config->stored_dtype = DType::kBF16;
  } else if (*dtype == "float16") {
    config->stored_dtype = DType::kF16;
  } else {
    return make_error(ErrorCode::kUnsupported,
                      "{}: dtype \"{}\" is not supported; known: float32, bfloat16, float16",
                      fields.name(), printable(*dtype));
  }
  return {};
}

Status refuse_quantized(const JsonFields& fields) {
  QUIRE_ASSIGN(const json::object* quantization, fields.get_object("quantization_config"));
  if (quantization == nullptr) return {};
  QUIRE_ASSIGN(const auto method,
               JsonFields(*quantization, fields.name()).get_string("quant_method"));
  return make_error(ErrorCode::kUnsupported,
                    "{}: quantization method \"{}\" is not supported; use the unquantized model or "
                    "a GGUF file",
                    fields.name(), printable(method.value_or("unknown")));
}

// Ends of sequence and the beginning, from either file.
Status read_special_ids(const JsonFields& fields, ModelConfig* config) {
  QUIRE_ASSIGN(const std::vector<std::int64_t> eos_ids, fields.get_ints("eos_token_id"));
  for (std::int64_t id : eos_ids) add_eos_id(config, id);
  QUIRE_ASSIGN(const std::vector<std::int64_t> bos_ids, fields.get_ints("bos_token_id"));
  if (!config->bos_id && !bos_ids.empty() && bos_ids[0] >= 0 && bos_ids[0] < config->vocab_size) {
    config->bos_id = static_cast<TokenId>(bos_ids[0]);
  }
  return {};
}

// As vLLM takes them: whatever do_sample says.
Status read_generation(std::string_view text, ModelConfig* config) {
  QUIRE_ASSIGN(const json::object object, parse_json_object(text, "generation_config.json"));
  const JsonFields fields(object, "generation_config.json");
  QUIRE_TRY(read_special_ids(fields, config));
  QUIRE_ASSIGN(config->generation.temperature, fields.get_number("temperature"));
  QUIRE_ASSIGN(config->generation.top_p, fields.get_number("top_p"));
  QUIRE_ASSIGN(config->generation.min_p, fields.get_number("min_p"));
  QUIRE_ASSIGN(config->generation.repetition_penalty, fields.get_number("repetition_penalty"));
  QUIRE_ASSIGN(config->generation.top_k, fields.get_int("top_k"));
  return {};
}

}  // namespace

Result<ModelConfig> parse_hf_config(std::string_view config_json,
                                    std::string_view generation_config_json) {
  constexpr std::string_view kName = "config.json";
  QUIRE_ASSIGN(const json::object object, parse_json_object(config_json, kName));
  const JsonFields fields(object, kName);
  QUIRE_ASSIGN(const Family family, find_family(fields));
  ModelConfig config;
  config.architecture = family.architecture;
  config.source_architecture = family.source_architecture;
  QUIRE_TRY(refuse_quantized(fields));
  QUIRE_TRY(read_sizes(fields, family, &config));
  QUIRE_TRY(read_options(fields, family, &config));
  QUIRE_TRY(read_rope(fields, &config));
  QUIRE_TRY(read_dtype(fields, &config));
  QUIRE_TRY(check_config(config, kName));
  QUIRE_TRY(read_special_ids(fields, &config));
  if (!generation_config_json.empty()) QUIRE_TRY(read_generation(generation_config_json, &config));
  return config;
}

}  // namespace quire
