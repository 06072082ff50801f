// config.json and generation_config.json of a Hugging Face folder, of any model type: each family's
// spelling of the common sizes, its defaults (hf_families.h), and every other field as it stands.
#include <algorithm>
#include <boost/json/array.hpp>
#include <limits>
#include <string>
#include <utility>

#include "weights/checked.h"
#include "weights/config_check.h"
#include "weights/hf_parts.h"

namespace quire {
namespace json = boost::json;

std::string_view spelled(const JsonFields& fields, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    if (fields.find(key) != nullptr) return key;
  }
  return *keys.begin();
}

Status read_number(const JsonFields& fields, std::string_view key, double* out) {
  QUIRE_ASSIGN(const auto value, fields.get_number(key));
  if (value) *out = *value;
  return {};
}

namespace {

std::string first_class(const JsonFields& fields) {
  const json::value* list = fields.find("architectures");
  if (list == nullptr || !list->is_array() || list->get_array().empty()) return {};
  const json::value& first = list->get_array()[0];
  return first.is_string() ? std::string(first.get_string()) : std::string();
}

// model_type in its usual spelling, else what the class's name says.
Result<std::string> find_model_type(const JsonFields& fields, ModelConfig* config) {
  config->source_architecture = first_class(fields);
  QUIRE_ASSIGN(const auto model_type, fields.get_string("model_type"));
  if (model_type && !model_type->empty()) {
    if (config->source_architecture.empty()) config->source_architecture = *model_type;
    return normalized_model_type(*model_type);
  }
  if (!config->source_architecture.empty()) {
    return model_type_of_class(config->source_architecture);
  }
  return make_error(ErrorCode::kBadFile,
                    "{}: neither \"model_type\" nor \"architectures\" says what the model is",
                    fields.name());
}

// The registry's key. A family that is not known is refused before its fields are: they may well
// have other names.
Result<std::string> read_model_type(const JsonFields& fields, ModelConfig* config) {
  QUIRE_ASSIGN(std::string type, find_model_type(fields, config));
  if (!hf_family(type).model_type.empty()) return type;
  return make_error(
      ErrorCode::kUnsupported, "{}: architecture \"{}\" is not supported; the nearest that is: {}",
      fields.name(), printable(config->source_architecture), nearest_model_type(type));
}

// The text half of a multimodal model laid over the whole; the whole's other fields stay.
void lay_text_config_over(json::object* object) {
  const json::value* nested = object->if_contains("text_config");
  if (nested == nullptr || !nested->is_object()) return;
  const json::object text = nested->get_object();
  object->erase("text_config");
  for (const auto& entry : text) (*object)[entry.key()] = entry.value();
}

struct Nested {
  const char *object, *key, *name;
};
// Fields that DBRX keeps in nested objects, under their common names.
constexpr Nested kNested[] = {
    {"attn_config", "kv_n_heads", "num_key_value_heads"},
    {"attn_config", "rope_theta", "rope_theta"},
    {"ffn_config", "ffn_hidden_size", "intermediate_size"},
};
void lift_nested(json::object* object) {
  for (const Nested& row : kNested) {
    const json::value* parent = object->if_contains(row.object);
    if (parent == nullptr || !parent->is_object() || object->contains(row.name)) continue;
    const json::value* value = parent->get_object().if_contains(row.key);
    if (value != nullptr && !value->is_null()) (*object)[row.name] = json::value(*value);
  }
}

// *out = the integer, the fallback when absent, or an error when absent without fallback.
template <class T>
Status read_int(const JsonFields& fields, std::initializer_list<std::string_view> keys,
                std::optional<std::int64_t> fallback, T* out) {
  const std::string_view key = spelled(fields, keys);
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

// Falcon and GPTBigCode say multi_query; Falcon's new decoder has num_kv_heads instead.
Status read_kv_heads(const HfSource& source, ModelConfig* config) {
  const JsonFields& fields = source.fields;
  QUIRE_ASSIGN(const auto multi_query, fields.get_bool("multi_query"));
  if (source.model_type == "falcon") {
    QUIRE_ASSIGN(const auto grouped, fields.get_bool("new_decoder_architecture"));
    if (!grouped.value_or(false)) {
      config->num_kv_heads = multi_query.value_or(false) ? 1 : config->num_heads;
      return {};
    }
  }
  const std::int64_t usual = multi_query.value_or(false) ? 1 : config->num_heads;
  return read_int(fields, {"num_key_value_heads", "num_kv_heads", "n_head_kv"}, usual,
                  &config->num_kv_heads);
}

// MLA's heads are the part without and the part with rotary together, whatever head_dim says.
Status read_head_dim(const JsonFields& fields, ModelConfig* config) {
  QUIRE_ASSIGN(const auto nope, fields.get_int("qk_nope_head_dim"));
  QUIRE_ASSIGN(const auto rope, fields.get_int("qk_rope_head_dim"));
  if (nope && rope) {
    if (*nope < 1 || *nope > 4096 || *rope < 2 || *rope > 4096) {
      return make_error(ErrorCode::kBadFile,
                        "{}: qk_nope_head_dim {} and qk_rope_head_dim {}; sizes up to 4096 are "
                        "expected",
                        fields.name(), *nope, *rope);
    }
    config->head_dim = static_cast<std::int32_t>(*nope + *rope);
    return {};
  }
  QUIRE_ASSIGN(const auto head_dim, fields.get_int("head_dim"));
  if (!head_dim && config->hidden_size % config->num_heads != 0) {
    return make_error(
        ErrorCode::kBadFile,
        "{}: hidden_size {} is not a multiple of num_attention_heads {} and there is no "
        "head_dim",
        fields.name(), config->hidden_size, config->num_heads);
  }
  return read_int(fields, {"head_dim"}, config->hidden_size / config->num_heads, &config->head_dim);
}

Status read_heads(const HfSource& source, ModelConfig* config) {
  const JsonFields& fields = source.fields;
  if (!source.family.attention) {
    // Mamba 2 has heads of its own kind.
    QUIRE_TRY(read_int(fields, {"num_heads"}, 1, &config->num_heads));
    config->num_kv_heads = config->num_heads;
    return read_int(fields, {"head_dim"}, 1, &config->head_dim);
  }
  QUIRE_TRY(read_int(fields, {"num_attention_heads", "n_head", "n_heads"}, {}, &config->num_heads));
  if (config->num_heads < 1) {
    return make_error(ErrorCode::kBadFile, "{}: \"num_attention_heads\" is {}; it must be positive",
                      fields.name(), config->num_heads);
  }
  QUIRE_TRY(read_kv_heads(source, config));
  return read_head_dim(fields, config);
}

// Families without an own field for it: four times the hidden size; state space: `expand` times.
Result<std::optional<std::int64_t>> implied_intermediate(const HfSource& source,
                                                         const ModelConfig& config) {
  constexpr std::string_view kFourTimes[] = {"bloom",       "falcon", "gpt2",
                                             "gpt_bigcode", "gptj",   "mpt"};
  for (std::string_view each : kFourTimes) {
    if (each == source.model_type) return 4 * config.hidden_size;
  }
  if (source.family.attention) return std::nullopt;
  QUIRE_ASSIGN(const auto expand, source.fields.get_int("expand"));
  return std::clamp<std::int64_t>(expand.value_or(2), 1, 64) * config.hidden_size;
}

Status read_sizes(const HfSource& source, ModelConfig* config) {
  const JsonFields& fields = source.fields;
  QUIRE_TRY(read_int(fields, {"vocab_size"}, {}, &config->vocab_size));
  QUIRE_TRY(read_int(fields, {"hidden_size", "n_embd", "d_model"}, {}, &config->hidden_size));
  if (config->hidden_size < 1 || config->hidden_size > 1 << 20) {
    return make_error(ErrorCode::kBadFile, "{}: the hidden size is {}; it must be from 1 to {}",
                      fields.name(), config->hidden_size, 1 << 20);
  }
  QUIRE_ASSIGN(const auto implied, implied_intermediate(source, *config));
  QUIRE_TRY(read_int(fields, {"intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim"},
                     implied, &config->intermediate_size));
  QUIRE_TRY(
      read_int(fields, {"num_hidden_layers", "n_layer", "n_layers"}, {}, &config->num_layers));
  QUIRE_TRY(read_heads(source, config));
  return read_int(fields,
                  {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"},
                  2048, &config->max_position);
}

struct Synonym {
  std::string_view from, to;
};
// One spelling per function. Others pass through: the model says whether it knows them.
constexpr Synonym kActivations[] = {
    {"swish", "silu"},
    {"gelu_new", "gelu_pytorch_tanh"},
    {"gelu_fast", "gelu_pytorch_tanh"},
    {"gelu_tanh", "gelu_pytorch_tanh"},
};

Status read_activation(const HfSource& source, ModelConfig* config) {
  const JsonFields& fields = source.fields;
  const json::value* nested = source.object.if_contains("ffn_config");
  if (nested != nullptr && nested->is_object()) {  // DBRX
    nested = nested->get_object().if_contains("ffn_act_fn");
    if (nested != nullptr && nested->is_object()) {
      QUIRE_ASSIGN(const auto name,
                   JsonFields(nested->get_object(), fields.name()).get_string("name"));
      config->activation = name.value_or("silu");
    }
  }
  QUIRE_ASSIGN(const auto activation,
               fields.get_string(spelled(fields, {"hidden_activation", "activation_function",
                                                  "hidden_act", "activation"})));
  if (activation) config->activation = *activation;
  for (const Synonym& each : kActivations) {
    if (each.from == config->activation) config->activation = each.to;
  }
  // The first Gemma files say "gelu" and mean the tanh form.
  if (source.model_type == "gemma" && config->activation == "gelu") {
    config->activation = "gelu_pytorch_tanh";
  }
  return {};
}

Status read_biases(const HfSource& source, ModelConfig* config) {
  const JsonFields& fields = source.fields;
  QUIRE_ASSIGN(const auto attention,
               fields.get_bool(spelled(fields, {"attention_bias", "use_qkv_bias", "qkv_bias"})));
  QUIRE_ASSIGN(const auto output, fields.get_bool("attention_out_bias"));
  QUIRE_ASSIGN(const auto mlp, fields.get_bool("mlp_bias"));
  QUIRE_ASSIGN(const auto all,
               fields.get_bool(spelled(fields, {"use_bias", "enable_bias", "bias"})));
  switch (source.family.bias) {
    case BiasRule::kNone:
      return {};
    case BiasRule::kFlag:
      config->attention_bias = config->attention_out_bias = attention.value_or(false);
      config->mlp_bias = mlp.value_or(false);
      return {};
    case BiasRule::kQkvFlag:
      config->attention_bias = attention.value_or(false);
      config->attention_out_bias = output.value_or(false);
      config->mlp_bias = mlp.value_or(false);
      return {};
    case BiasRule::kQkv:
      config->attention_bias = true;
      return {};
    case BiasRule::kAllFlag:
      config->attention_bias = config->attention_out_bias = config->mlp_bias = all.value_or(false);
      return {};
    case BiasRule::kAll:
      config->attention_bias = config->attention_out_bias = config->mlp_bias = true;
      return {};
  }
  return {};
}

Status read_options(const HfSource& source, ModelConfig* config) {
  const JsonFields& fields = source.fields;
  config->norm_eps = 1e-6;
  QUIRE_TRY(read_number(fields,
                        spelled(fields, {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                         "norm_epsilon", "norm_eps", "block_norm_eps"}),
                        &config->norm_eps));
  QUIRE_TRY(read_activation(source, config));
  QUIRE_ASSIGN(const auto tied,
               fields.get_bool(spelled(fields, {"tie_word_embeddings", "tie_embedding"})));
  config->tied_embeddings = tied.value_or(false);
  return read_biases(source, config);
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
  } else if (*dtype == "float8_e4m3fn") {
    config->stored_dtype = DType::kF8E4M3;
  } else if (*dtype == "float8_e5m2") {
    config->stored_dtype = DType::kF8E5M2;
  } else {
    return make_error(ErrorCode::kUnsupported,
                      "{}: dtype \"{}\" is not supported; known: float32, bfloat16, float16, "
                      "float8_e4m3fn, float8_e5m2",
                      fields.name(), printable(*dtype));
  }
  return {};
}

Status read_quantization(const JsonFields& fields, ModelConfig* config) {
  QUIRE_ASSIGN(const json::object* quantization, fields.get_object("quantization_config"));
  if (quantization == nullptr) return {};
  QUIRE_ASSIGN(config->quantization, parse_quant_config(*quantization, fields.name()));
  return {};
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

}  // namespace

// As vLLM takes them: whatever do_sample says.
Status apply_generation_config(std::string_view text, std::string_view name, ModelConfig* config) {
  QUIRE_ASSIGN(const json::object object, parse_json_object(text, name));
  const JsonFields fields(object, name);
  QUIRE_TRY(read_special_ids(fields, config));
  const std::pair<const char*, std::optional<double>*> numbers[] = {
      {"temperature", &config->generation.temperature},
      {"top_p", &config->generation.top_p},
      {"min_p", &config->generation.min_p},
      {"repetition_penalty", &config->generation.repetition_penalty},
  };
  for (const auto& [key, out] : numbers) {
    QUIRE_ASSIGN(const auto value, fields.get_number(key));
    if (value) *out = value;
  }
  QUIRE_ASSIGN(const auto top_k, fields.get_int("top_k"));
  if (top_k) config->generation.top_k = top_k;
  QUIRE_ASSIGN(const auto max_new_tokens, fields.get_int("max_new_tokens"));
  if (max_new_tokens && *max_new_tokens < 1)
    return make_error(ErrorCode::kInvalidArgument, "{}: max_new_tokens is {}, it must be positive",
                      name, *max_new_tokens);
  if (max_new_tokens) config->generation.max_new_tokens = max_new_tokens;
  return {};
}

Result<ModelConfig> parse_hf_config(std::string_view config_json,
                                    std::string_view generation_config_json) {
  constexpr std::string_view kName = "config.json";
  QUIRE_ASSIGN(json::object object, parse_json_object(config_json, kName));
  const std::string outer_class = first_class(JsonFields(object, kName));
  lay_text_config_over(&object);
  lift_nested(&object);
  ModelConfig config;
  const JsonFields fields(object, kName);
  QUIRE_ASSIGN(config.architecture, read_model_type(fields, &config));
  if (!outer_class.empty()) config.source_architecture = outer_class;
  add_family_defaults(config.architecture, &object);
  const HfSource source{object, fields, config.architecture, hf_family(config.architecture)};
  QUIRE_TRY(read_quantization(fields, &config));
  QUIRE_TRY(read_sizes(source, &config));
  QUIRE_TRY(check_sizes(config, kName));
  QUIRE_TRY(read_options(source, &config));
  QUIRE_TRY(read_hf_layers(source, &config));
  QUIRE_TRY(read_hf_rope(source, &config));
  QUIRE_TRY(read_dtype(fields, &config));
  flatten_json(object, &config.fields);
  QUIRE_TRY(check_config(config, kName));
  QUIRE_TRY(read_special_ids(fields, &config));
  if (!generation_config_json.empty()) {
    QUIRE_TRY(apply_generation_config(generation_config_json, "generation_config.json", &config));
  }
  return config;
}

}  // namespace quire
