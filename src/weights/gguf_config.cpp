// A model's configuration from GGUF metadata and tensor shapes, for the architectures of
// gguf_arch.h. Where llama.cpp means something else than config.json, llama.cpp is followed: it is
// what the file was made for.
#include <algorithm>
#include <array>
#include <boost/json/object.hpp>

#include "weights/checked.h"
#include "weights/config_check.h"
#include "weights/gguf_fields.h"
#include "weights/hf_families.h"

namespace quire {
namespace {

Result<GgufArch> find_architecture(const GgufFile& file) {
  const auto architecture = file.get_string("general.architecture");
  if (!architecture) {
    return make_error(ErrorCode::kBadFile, "{}: metadata \"general.architecture\" is missing",
                      file.name());
  }
  if (const GgufArch* arch = find_gguf_arch(*architecture)) return *arch;
  return make_error(ErrorCode::kUnsupported,
                    "{}: architecture \"{}\" is not supported; the nearest that is: {}",
                    file.name(), printable(*architecture), nearest_gguf_arch(*architecture));
}

// Some GGUF architectures hold several of Hugging Face's model types.
std::string hf_model_type(const ArchFields& fields, const GgufArch& arch) {
  const bool experts = fields.integer("expert_count").value_or(0) > 0;
  if (arch.name == "llama" && experts) return "mixtral";
  if (arch.name == "deepseek2" && fields.integer("expert_gating_func").value_or(0) == 2) {
    return "deepseek_v3";
  }
  if (arch.name == "olmo2" && fields.integer("attention.sliding_window").value_or(0) > 0) {
    return "olmo3";
  }
  if (arch.name == "granitemoe" &&
      fields.integer("expert_shared_feed_forward_length").value_or(0) > 0) {
    return "granitemoeshared";
  }
  return std::string(arch.model_type);
}

// The embedding has a row per token, named ones and padding.
Status read_vocab_size(const GgufFile& file, ModelConfig* config) {
  const auto found = file.tensors().find("token_embd.weight");
  if (found == file.tensors().end() || found->second.shape.rank() != 2) {
    return make_error(ErrorCode::kBadFile,
                      "{}: tensor \"token_embd.weight\" is missing or no matrix", file.name());
  }
  const std::int64_t rows = found->second.shape[0];
  config->vocab_size = rows;
  const GgufArray* tokens = file.get_array("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->strings.size() > static_cast<std::uint64_t>(rows)) {
    return make_error(ErrorCode::kBadFile, "{}: {} tokens, but the embedding has {} rows",
                      file.name(), tokens->strings.size(), rows);
  }
  return {};
}

Status read_state_space_heads(const ArchFields& fields, ModelConfig* config) {
  config->num_heads = config->num_kv_heads = config->head_dim = 1;
  QUIRE_TRY(fields.read_int("ssm.inner_size", {}, &config->intermediate_size));
  if (config->architecture != "mamba2") return {};
  QUIRE_TRY(fields.read_int("ssm.time_step_rank", {}, &config->num_heads));
  if (config->num_heads < 1 || config->intermediate_size / config->num_heads > 4096) {
    return make_error(ErrorCode::kBadFile, "{}: {} heads of a state space of {}", fields.name(),
                      config->num_heads, config->intermediate_size);
  }
  config->num_kv_heads = config->num_heads;
  config->head_dim = static_cast<std::int32_t>(config->intermediate_size / config->num_heads);
  return {};
}

// Latent attention: the head is that before absorption, and every head has its key.
Status read_latent_heads(const ArchFields& fields, ModelConfig* config) {
  config->num_kv_heads = config->num_heads;
  QUIRE_TRY(fields.read_int("attention.key_length", {}, &config->head_dim));
  return fields.read_int("attention.key_length_mla", config->head_dim, &config->head_dim);
}

Status read_heads(const ArchFields& fields, ModelConfig* config) {
  if (!hf_family(config->architecture).attention) return read_state_space_heads(fields, config);
  QUIRE_TRY(fields.read_int("attention.head_count", {}, &config->num_heads));
  if (config->num_heads < 1) {
    return make_error(ErrorCode::kBadFile, "{}: metadata \"{}\" is {}; it must be positive",
                      fields.name(), fields.key("attention.head_count"), config->num_heads);
  }
  if (fields.integer("attention.kv_lora_rank").value_or(0) > 0) {
    return read_latent_heads(fields, config);
  }
  QUIRE_TRY(fields.read_int("attention.head_count_kv", config->num_heads, &config->num_kv_heads));
  const std::int64_t default_head = config->hidden_size / config->num_heads;
  QUIRE_TRY(fields.read_int("attention.key_length", default_head, &config->head_dim));
  std::int32_t value_dim = 0;
  QUIRE_TRY(fields.read_int("attention.value_length", config->head_dim, &value_dim));
  if (value_dim == config->head_dim) return {};
  return make_error(ErrorCode::kUnsupported,
                    "{}: key size {} and value size {} differ, which is not supported",
                    fields.name(), config->head_dim, value_dim);
}

Status read_sizes(const ArchFields& fields, ModelConfig* config) {
  QUIRE_TRY(fields.read_int("embedding_length", {}, &config->hidden_size));
  QUIRE_TRY(fields.read_int("block_count", {}, &config->num_layers));
  // Blocks of multi-token prediction stand behind the model's own.
  std::int32_t prediction_layers = 0;
  QUIRE_TRY(fields.read_int("nextn_predict_layers", 0, &prediction_layers));
  config->num_layers -= std::clamp(prediction_layers, 0, std::max(config->num_layers - 1, 0));
  QUIRE_TRY(fields.read_int("feed_forward_length", {}, &config->intermediate_size));
  if (config->architecture == "llama4_text") {  // config.json's is that of an expert
    QUIRE_TRY(fields.read_int("expert_feed_forward_length", config->intermediate_size,
                              &config->intermediate_size));
  }
  QUIRE_TRY(read_heads(fields, config));
  QUIRE_TRY(fields.read_int("context_length", {}, &config->max_position));
  const bool rms = fields.find("attention.layer_norm_rms_epsilon") != nullptr ||
                   fields.find("attention.layer_norm_epsilon") == nullptr;
  return fields.read_float(
      rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", {},
      &config->norm_eps);
}

struct Window {
  std::string_view model_type;
  std::int64_t default_pattern;  // every n-th layer is full, where the file has no list
  std::int64_t default_window = 0;
};
// The architectures for which llama.cpp has sliding windows.
constexpr Window kWindows[] = {
    {"cohere2", 4},     {"exaone4", 4}, {"gemma2", 2, 4096},
    {"gemma3_text", 6}, {"gpt_oss", 2}, {"olmo3", 4},
};

// layer_types by a rule of the layer's number.
template <class Rule>
void set_types(ModelConfig* config, Rule rule) {
  config->layer_types.clear();
  for (std::int64_t i = 0; i < config->num_layers; ++i) config->layer_types.emplace_back(rule(i));
}

// Layers that attend and layers that don't: no key-value heads, or the file's list.
void read_mixed_layers(const ArchFields& fields, ModelConfig* config) {
  const std::vector<std::int64_t> kv_heads = fields.integers("attention.head_count_kv");
  const std::string& type = config->architecture;
  const bool mamba = type == "jamba" || type == "granitemoehybrid";
  if (mamba || type.starts_with("lfm2")) {
    const char* other = mamba ? "mamba" : "conv";
    set_types(config, [&](std::int64_t i) {
      const auto index = static_cast<std::size_t>(i);
      return index < kv_heads.size() && kv_heads[index] == 0 ? other : "full_attention";
    });
  }
  if (type == "qwen3_next") {
    const std::vector<std::int64_t> recurrent = fields.integers("attention.recurrent_layers");
    const std::int64_t every =
        std::max<std::int64_t>(fields.integer("full_attention_interval").value_or(4), 1);
    set_types(config, [&](std::int64_t i) {
      const auto index = static_cast<std::size_t>(i);
      const bool linear = index < recurrent.size() ? recurrent[index] != 0 : (i + 1) % every != 0;
      return linear ? "linear_attention" : "full_attention";
    });
  }
  if (type == "llama4_text" && fields.integer("expert_count").value_or(0) > 0) {
    set_types(config, [&](std::int64_t i) {
      return (i + 1) % 4 != 0 ? "chunked_attention" : "full_attention";
    });
  }
}

Status read_windows(const ArchFields& fields, ModelConfig* config) {
  read_mixed_layers(fields, config);
  const auto* found =
      std::find_if(std::begin(kWindows), std::end(kWindows),
                   [&](const Window& each) { return each.model_type == config->architecture; });
  if (found == std::end(kWindows)) return {};
  // llama.cpp knows EXAONE 4's windows by the number of layers.
  if (config->architecture == "exaone4" && config->num_layers != 64) return {};
  QUIRE_TRY(
      fields.read_int("attention.sliding_window", found->default_window, &config->sliding_window));
  if (config->sliding_window <= 0) return {};
  const std::vector<std::int64_t> list = fields.integers("attention.sliding_window_pattern");
  const std::int64_t every = std::max<std::int64_t>(
      fields.integer("attention.sliding_window_pattern").value_or(found->default_pattern), 1);
  set_types(config, [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    const bool sliding = index < list.size() ? list[index] != 0 : (i + 1) % every != 0;
    return sliding ? "sliding_attention" : "full_attention";
  });
  return {};
}

// A GGUF doesn't name it: that of the family.
void read_activation(ModelConfig* config) {
  boost::json::object defaults;
  add_family_defaults(config->architecture, &defaults);
  for (const char* key : {"hidden_act", "hidden_activation", "activation_function", "activation"}) {
    const boost::json::value* value = defaults.if_contains(key);
    if (value != nullptr && value->is_string()) config->activation = value->get_string().c_str();
  }
  if (config->activation == "gelu_new") config->activation = "gelu_pytorch_tanh";
}

void read_special_ids(const GgufFile& file, ModelConfig* config) {
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = file.get_int(key)) add_eos_id(config, *id);
  }
  const auto bos = file.get_int("tokenizer.ggml.bos_token_id");
  if (bos && *bos >= 0 && *bos < config->vocab_size) config->bos_id = static_cast<TokenId>(*bos);
}

// The sampling that the model's makers recommend, where the file says it.
void read_sampling(const GgufFile& file, ModelConfig* config) {
  config->generation.temperature = file.get_float("general.sampling.temp");
  config->generation.top_p = file.get_float("general.sampling.top_p");
  config->generation.min_p = file.get_float("general.sampling.min_p");
  config->generation.repetition_penalty = file.get_float("general.sampling.penalty_repeat");
  config->generation.top_k = file.get_int("general.sampling.top_k");
}

// A bias of this name in any layer.
bool has_bias(const GgufFile& file, std::string_view tail) {
  return std::any_of(
      file.tensor_names().begin(), file.tensor_names().end(),
      [&](const std::string& name) { return name.starts_with("blk.") && name.ends_with(tail); });
}

}  // namespace

Result<ModelConfig> parse_gguf_config(const GgufFile& file) {
  ModelConfig config;
  QUIRE_ASSIGN(const GgufArch arch, find_architecture(file));
  const ArchFields fields(file, arch.name);
  config.from_gguf = true;
  config.source_architecture = arch.name;
  config.architecture = hf_model_type(fields, arch);
  QUIRE_TRY(read_vocab_size(file, &config));
  QUIRE_TRY(read_sizes(fields, &config));
  QUIRE_TRY(check_sizes(config, file.name()));
  QUIRE_TRY(read_windows(fields, &config));
  QUIRE_TRY(read_gguf_rope(fields, arch, &config));
  QUIRE_TRY(check_config(config, file.name()));
  config.tied_embeddings = !fields.has_tensor("output.weight");
  config.attention_bias = has_bias(file, ".attn_q.bias") || has_bias(file, ".attn_qkv.bias");
  config.attention_out_bias = has_bias(file, ".attn_output.bias");
  config.mlp_bias = has_bias(file, ".ffn_down.bias");
  read_activation(&config);
  read_special_ids(file, &config);
  read_sampling(file, &config);
  QUIRE_TRY(set_gguf_fields(fields, &config));
  return config;
}

}  // namespace quire
