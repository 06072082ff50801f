#include "weights/hf_families.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include "base/edit_distance.h"

namespace quire {
namespace {

using W = WindowRule;
using B = BiasRule;

// model_type, window, bias, interleaved, rotary, attention
constexpr HfFamily kHfFamilies[] = {
    {"apertus", W::kNone, B::kFlag},
    {"arcee", W::kNone, B::kFlag},
    {"bloom", W::kNone, B::kAll, false, false},
    {"cohere", W::kNone, B::kFlag, true},
    {"cohere2", W::kPattern, B::kFlag, true},
    {"dbrx", W::kNone, B::kNone},
    {"deepseek_v2", W::kNone, B::kFlag, true},
    {"deepseek_v3", W::kNone, B::kFlag, true},
    {"dots1", W::kAfterMax, B::kFlag},
    {"ernie4_5", W::kNone, B::kAllFlag, true},
    {"ernie4_5_moe", W::kNone, B::kAllFlag, true},
    {"exaone4", W::kPattern, B::kNone},
    {"falcon", W::kNone, B::kAllFlag},
    {"gemma", W::kNone, B::kFlag},
    {"gemma2", W::kPattern, B::kFlag},
    {"gemma3_text", W::kPattern, B::kFlag},
    {"glm", W::kNone, B::kQkvFlag, true},
    {"glm4", W::kNone, B::kQkvFlag, true},
    {"glm4_moe", W::kNone, B::kQkvFlag},
    {"gpt2", W::kNone, B::kAll, false, false},
    {"gpt_bigcode", W::kNone, B::kAll, false, false},
    {"gpt_neox", W::kNone, B::kAll},
    {"gpt_oss", W::kPattern, B::kFlag},
    {"gptj", W::kNone, B::kNone, true},
    {"granite", W::kNone, B::kFlag},
    {"granitemoe", W::kNone, B::kFlag},
    {"granitemoehybrid", W::kNone, B::kFlag},
    {"granitemoeshared", W::kNone, B::kFlag},
    {"hunyuan_v1_dense", W::kNone, B::kFlag},
    {"hunyuan_v1_moe", W::kNone, B::kFlag},
    {"jamba", W::kMambaPeriod, B::kNone, false, false},
    {"lfm2", W::kConv, B::kNone},
    {"lfm2_moe", W::kConv, B::kNone},
    {"llama", W::kNone, B::kFlag},
    {"llama4_text", W::kChunked, B::kFlag, true},
    {"mamba", W::kNone, B::kNone, false, false, false},
    {"mamba2", W::kNone, B::kNone, false, false, false},
    {"minicpm3", W::kNone, B::kFlag},
    {"minimax_m2", W::kNone, B::kNone},
    {"ministral3", W::kEveryLayer, B::kNone},
    {"mistral", W::kEveryLayer, B::kNone},
    {"mixtral", W::kEveryLayer, B::kNone},
    {"mpt", W::kNone, B::kNone, false, false},
    {"nemotron", W::kNone, B::kFlag},
    {"olmo", W::kNone, B::kFlag},
    {"olmo2", W::kNone, B::kFlag},
    {"olmo3", W::kPattern, B::kFlag},
    {"olmoe", W::kNone, B::kFlag},
    {"opt", W::kNone, B::kAllFlag, false, false},
    {"phi", W::kNone, B::kAll},
    {"phi3", W::kEveryLayer, B::kNone},
    {"phimoe", W::kEveryLayer, B::kFlag},
    {"qwen2", W::kUseFlag, B::kQkv},
    {"qwen2_moe", W::kUseFlag, B::kQkvFlag},
    {"qwen3", W::kUseFlag, B::kFlag},
    {"qwen3_moe", W::kUseFlag, B::kFlag},
    {"qwen3_next", W::kLinear, B::kFlag},
    {"seed_oss", W::kNone, B::kQkvFlag},
    {"smollm3", W::kRopeLayers, B::kFlag},
    {"stablelm", W::kNone, B::kQkvFlag},
    {"starcoder2", W::kEveryLayer, B::kAllFlag},
};
constexpr HfFamily kUnknown = {};

struct Default {
  std::string_view model_type, key;
  double value;
};
// What transformers' configuration classes have where it differs from the general defaults of
// hf_config.cpp (epsilon 1e-6, theta 10000, 2048 positions, untied) and published files leave it
// out.
constexpr Default kDefaults[] = {
    {"apertus", "rms_norm_eps", 1e-5},
    {"arcee", "rms_norm_eps", 1e-5},
    {"bloom", "layer_norm_epsilon", 1e-5},
    {"cohere", "layer_norm_eps", 1e-5},
    {"cohere2", "layer_norm_eps", 1e-5},
    {"cohere2", "sliding_window", 4096},
    {"cohere2", "sliding_window_pattern", 4},
    {"dbrx", "layer_norm_eps", 1e-5},
    {"dots1", "max_window_layers", 62},
    {"ernie4_5", "rms_norm_eps", 1e-5},
    {"ernie4_5", "rope_theta", 500000},
    {"ernie4_5_moe", "rms_norm_eps", 1e-5},
    {"ernie4_5_moe", "rope_theta", 500000},
    {"exaone4", "rms_norm_eps", 1e-5},
    {"exaone4", "sliding_window_pattern", 4},
    {"falcon", "layer_norm_epsilon", 1e-5},
    {"gemma2", "sliding_window", 4096},
    {"gemma2", "sliding_window_pattern", 2},
    {"gemma3_text", "vocab_size", 262208},
    {"gemma3_text", "num_attention_heads", 8},
    {"gemma3_text", "num_key_value_heads", 4},
    {"gemma3_text", "head_dim", 256},
    {"gemma3_text", "max_position_embeddings", 131072},
    {"gemma3_text", "query_pre_attn_scalar", 256},
    {"gemma3_text", "rope_theta", 1000000},
    {"gemma3_text", "rope_local_base_freq", 10000},
    {"gemma3_text", "sliding_window", 4096},
    {"gemma3_text", "sliding_window_pattern", 6},
    {"glm", "rms_norm_eps", 1.5625e-7},
    {"glm", "partial_rotary_factor", 0.5},
    {"glm4", "rms_norm_eps", 1.5625e-7},
    {"glm4", "partial_rotary_factor", 0.5},
    {"glm4_moe", "rms_norm_eps", 1e-5},
    {"glm4_moe", "partial_rotary_factor", 0.5},
    {"gpt2", "layer_norm_epsilon", 1e-5},
    {"gpt2", "n_positions", 1024},
    {"gpt_bigcode", "layer_norm_epsilon", 1e-5},
    {"gpt_bigcode", "n_positions", 1024},
    {"gpt_neox", "layer_norm_eps", 1e-5},
    {"gpt_neox", "rotary_pct", 0.25},
    {"gpt_oss", "rms_norm_eps", 1e-5},
    {"gpt_oss", "rope_theta", 150000},
    {"gpt_oss", "sliding_window", 128},
    {"gpt_oss", "sliding_window_pattern", 2},
    {"gptj", "layer_norm_epsilon", 1e-5},
    {"gptj", "rotary_dim", 64},
    {"hunyuan_v1_dense", "rms_norm_eps", 1e-5},
    {"hunyuan_v1_moe", "rms_norm_eps", 1e-5},
    {"jamba", "attn_layer_period", 8},
    {"jamba", "attn_layer_offset", 4},
    {"lfm2", "norm_eps", 1e-5},
    {"lfm2", "rope_theta", 1000000},
    {"lfm2_moe", "norm_eps", 1e-5},
    {"lfm2_moe", "rope_theta", 1000000},
    {"llama4_text", "rms_norm_eps", 1e-5},
    {"llama4_text", "rope_theta", 500000},
    {"llama4_text", "no_rope_layer_interval", 4},
    {"llama4_text", "attention_chunk_size", 8192},
    {"mamba", "layer_norm_epsilon", 1e-5},
    {"mamba", "max_position_embeddings", 1 << 20},
    {"mamba2", "layer_norm_epsilon", 1e-5},
    {"mamba2", "max_position_embeddings", 1 << 20},
    {"minimax_m2", "head_dim", 128},
    {"minimax_m2", "num_key_value_heads", 8},
    {"minimax_m2", "rope_theta", 5000000},
    {"ministral3", "head_dim", 128},
    {"ministral3", "max_position_embeddings", 262144},
    {"ministral3", "num_key_value_heads", 8},
    {"ministral3", "rms_norm_eps", 1e-5},
    {"ministral3", "rope_theta", 1000000},
    {"mistral", "num_key_value_heads", 8},
    {"mistral", "max_position_embeddings", 131072},
    {"mistral", "sliding_window", 4096},
    {"mixtral", "num_key_value_heads", 8},
    {"mixtral", "rms_norm_eps", 1e-5},
    {"mixtral", "rope_theta", 1000000},
    {"mpt", "layer_norm_epsilon", 1e-5},
    {"nemotron", "norm_eps", 1e-5},
    {"nemotron", "partial_rotary_factor", 0.5},
    {"olmo2", "rms_norm_eps", 1e-5},
    {"olmo3", "rms_norm_eps", 1e-5},
    {"olmo3", "sliding_window", 4096},
    {"olmo3", "sliding_window_pattern", 4},
    {"olmoe", "rms_norm_eps", 1e-5},
    {"opt", "layer_norm_eps", 1e-5},
    {"phi", "layer_norm_eps", 1e-5},
    {"phi", "partial_rotary_factor", 0.5},
    {"phi3", "rms_norm_eps", 1e-5},
    {"phimoe", "rms_norm_eps", 1e-5},
    {"phimoe", "rope_theta", 1000000},
    {"qwen2", "max_window_layers", 28},
    {"qwen2_moe", "max_window_layers", 28},
    {"qwen3", "max_window_layers", 28},
    {"qwen3_moe", "max_window_layers", 28},
    {"qwen3_next", "partial_rotary_factor", 0.25},
    {"qwen3_next", "full_attention_interval", 4},
    {"smollm3", "rope_theta", 2000000},
    {"smollm3", "no_rope_layer_interval", 4},
    {"stablelm", "layer_norm_eps", 1e-5},
    {"stablelm", "partial_rotary_factor", 0.25},
    {"starcoder2", "norm_epsilon", 1e-5},
};

struct Flag {
  std::string_view model_type, key;
  bool value;
};
constexpr Flag kFlags[] = {
    {"bloom", "tie_word_embeddings", true},
    {"cohere", "tie_word_embeddings", true},
    {"cohere2", "tie_word_embeddings", true},
    {"ernie4_5", "tie_word_embeddings", true},
    {"ernie4_5_moe", "tie_word_embeddings", true},
    {"falcon", "tie_word_embeddings", true},
    {"gemma", "tie_word_embeddings", true},
    {"gemma2", "tie_word_embeddings", true},
    {"gemma3_text", "tie_word_embeddings", true},
    {"gpt2", "tie_word_embeddings", true},
    {"gpt_bigcode", "tie_word_embeddings", true},
    {"lfm2", "tie_word_embeddings", true},
    {"lfm2_moe", "tie_word_embeddings", true},
    {"mamba", "tie_word_embeddings", true},
    {"minicpm3", "tie_word_embeddings", true},
    {"mpt", "tie_word_embeddings", true},
    {"opt", "tie_word_embeddings", true},
    {"smollm3", "tie_word_embeddings", true},
    {"starcoder2", "tie_word_embeddings", true},
    {"gpt_bigcode", "multi_query", true},
    {"falcon", "multi_query", true},
    {"falcon", "parallel_attn", true},
    {"opt", "enable_bias", true},
    {"opt", "do_layer_norm_before", true},
    {"qwen2_moe", "qkv_bias", true},
    {"seed_oss", "attention_bias", true},
    {"starcoder2", "use_bias", true},
    {"gpt_oss", "attention_bias", true},
};

struct Text {
  std::string_view model_type, key, value;
};
constexpr Text kTexts[] = {
    {"apertus", "hidden_act", "xielu"},
    {"arcee", "hidden_act", "relu2"},
    {"bloom", "hidden_act", "gelu_pytorch_tanh"},
    {"falcon", "activation", "gelu"},
    {"gemma", "hidden_act", "gelu_pytorch_tanh"},
    {"gemma2", "hidden_activation", "gelu_pytorch_tanh"},
    {"gemma3_text", "hidden_activation", "gelu_pytorch_tanh"},
    {"gpt2", "activation_function", "gelu_new"},
    {"gpt_bigcode", "activation_function", "gelu_pytorch_tanh"},
    {"gpt_neox", "hidden_act", "gelu"},
    {"gptj", "activation_function", "gelu_new"},
    {"mpt", "hidden_act", "gelu"},
    {"nemotron", "hidden_act", "relu2"},
    {"opt", "activation_function", "relu"},
    {"phi", "hidden_act", "gelu_new"},
    {"starcoder2", "hidden_act", "gelu_pytorch_tanh"},
};

struct Pair {
  std::string_view from, to;
};
// Names that mean the text half of a multimodal model, or another name's architecture.
constexpr Pair kSynonyms[] = {
    {"gemma3", "gemma3_text"},       {"llama4", "llama4_text"},
    {"mistral3", "mistral"},         {"ministral", "mistral"},
    {"qwen2_vl", "qwen2"},           {"qwen2_vl_text", "qwen2"},
    {"qwen2_5_vl", "qwen2"},         {"qwen2_5_vl_text", "qwen2"},
    {"qwen3_vl", "qwen3"},           {"qwen3_vl_text", "qwen3"},
    {"qwen3_vl_moe", "qwen3_moe"},   {"qwen3_vl_moe_text", "qwen3_moe"},
    {"hunyuan", "hunyuan_v1_dense"}, {"command_r", "cohere"},
    {"RefinedWeb", "falcon"},        {"RefinedWebModel", "falcon"},
    {"kimi_k2", "deepseek_v3"},
};
// Classes whose model type is not their name in lower case.
constexpr Pair kClasses[] = {
    {"GPT2LMHeadModel", "gpt2"},
    {"GPTBigCodeForCausalLM", "gpt_bigcode"},
    {"GPTNeoXForCausalLM", "gpt_neox"},
    {"GPTJForCausalLM", "gptj"},
    {"OPTForCausalLM", "opt"},
    {"MPTForCausalLM", "mpt"},
    {"RWForCausalLM", "falcon"},
    {"StableLmForCausalLM", "stablelm"},
    {"StableLMEpochForCausalLM", "stablelm"},
    {"SmolLM3ForCausalLM", "smollm3"},
    {"GraniteMoeForCausalLM", "granitemoe"},
    {"GraniteMoeSharedForCausalLM", "granitemoeshared"},
    {"PhiMoEForCausalLM", "phimoe"},
    {"MiniCPM3ForCausalLM", "minicpm3"},
    {"Gemma3ForCausalLM", "gemma3_text"},
    {"Llama4ForCausalLM", "llama4_text"},
    {"Ernie4_5ForCausalLM", "ernie4_5"},
    {"Ernie4_5_MoeForCausalLM", "ernie4_5_moe"},
    {"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense"},
    {"HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe"},
};

bool has_key(const boost::json::object& config, std::string_view key) {
  return config.contains(boost::json::string_view(key.data(), key.size()));
}

}  // namespace

const HfFamily& hf_family(std::string_view model_type) {
  const auto* found =
      std::find_if(std::begin(kHfFamilies), std::end(kHfFamilies),
                   [&](const HfFamily& family) { return family.model_type == model_type; });
  return found == std::end(kHfFamilies) ? kUnknown : *found;
}

std::string_view nearest_model_type(std::string_view model_type) {
  return nearest_name(model_type, kHfFamilies, &HfFamily::model_type);
}

std::string normalized_model_type(std::string_view model_type) {
  std::string name(model_type);
  std::replace(name.begin(), name.end(), '-', '_');
  for (const Pair& pair : kSynonyms) {
    if (pair.from == name) return std::string(pair.to);
  }
  return name;
}

std::string model_type_of_class(std::string_view class_name) {
  for (const Pair& pair : kClasses) {
    if (pair.from == class_name) return std::string(pair.to);
  }
  std::string name;
  const std::string_view stem = class_name.substr(0, class_name.find("For"));
  for (std::size_t i = 0; i < stem.size(); ++i) {
    const auto c = static_cast<unsigned char>(stem[i]);
    const bool after_lower = i > 0 && std::islower(static_cast<unsigned char>(stem[i - 1])) != 0;
    if (std::isupper(c) != 0 && after_lower) name += '_';
    name += static_cast<char>(std::tolower(c));
  }
  // "qwen2moe" and "deepseek_v3" alike come out with the words apart.
  if (hf_family(name).model_type.empty()) {
    std::string joined = name;
    std::erase(joined, '_');
    for (const HfFamily& family : kHfFamilies) {
      std::string known(family.model_type);
      std::erase(known, '_');
      if (known == joined) return std::string(family.model_type);
    }
  }
  return normalized_model_type(name);
}

void add_family_defaults(std::string_view model_type, boost::json::object* config) {
  const auto key_of = [](std::string_view key) {
    return boost::json::string_view(key.data(), key.size());
  };
  for (const Default& row : kDefaults) {
    if (row.model_type != model_type || has_key(*config, row.key)) continue;
    const auto whole = static_cast<std::int64_t>(row.value);
    if (static_cast<double>(whole) == row.value) {
      (*config)[key_of(row.key)] = whole;
    } else {
      (*config)[key_of(row.key)] = row.value;
    }
  }
  for (const Flag& row : kFlags) {
    if (row.model_type == model_type && !has_key(*config, row.key)) {
      (*config)[key_of(row.key)] = row.value;
    }
  }
  for (const Text& row : kTexts) {
    if (row.model_type == model_type && !has_key(*config, row.key)) {
      (*config)[key_of(row.key)] = key_of(row.value);
    }
  }
}

}  // namespace quire
