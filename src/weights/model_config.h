// What a model is, whatever file it came from: sizes, attention and RoPE options, ends of sequence.
// Parsed from config.json (+ generation_config.json) or from GGUF metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tensor/dtype.h"
#include "weights/config_fields.h"
#include "weights/quant_config.h"

namespace quire {

class GgufFile;

struct RopeConfig {
  enum class Kind : std::uint8_t {
    kDefault,
    kLinear,
    kLlama3,
    kYarn,
    kLongrope,
    kDynamic,
    kUnsupported
  };
  Kind kind = Kind::kDefault;
  std::string kind_name = "default";  // as the file spells it, for messages
  double theta = 10000.0;
  double factor = 1.0;               // linear, llama3, yarn, dynamic; longrope: max / original
  double low_freq_factor = 1.0;      // llama3
  double high_freq_factor = 4.0;     // llama3
  double original_max_position = 0;  // llama3, yarn, longrope; dynamic: the model's max_position
  double beta_fast = 32.0, beta_slow = 1.0;   // yarn
  double mscale = 0.0, mscale_all_dim = 0.0;  // yarn (DeepSeek); 0: absent
  bool truncate = true;                       // yarn: whole dimensions as bounds
  std::optional<double>
      attention_factor;  // yarn, longrope: multiplies cos and sin; absent: derived
  std::vector<double> short_factor, long_factor;  // longrope, one per pair
  std::optional<double> short_mscale,
      long_mscale;                  // longrope (PhiMoE): multiplies cos and sin instead
  std::int32_t rotary_dim = 0;      // elements of a head that rotate
  bool interleaved = false;         // pairs (2i, 2i+1) instead of halves (i, i + rotary_dim / 2)
  std::vector<float> freq_factors;  // GGUF's rope_freqs.weight: divides inverse frequency i
};

struct ModelConfig {
  std::string architecture;         // registry key: "llama"
  std::string source_architecture;  // as the file spells it: "LlamaForCausalLM", "llama"
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0;
  std::int32_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t max_position = 0;
  double norm_eps = 1e-5;
  std::int32_t sliding_window = 0;  // 0: none; W covers W keys, the current one included
  bool attention_bias = false, attention_out_bias = false, mlp_bias = false;
  bool tied_embeddings = false;
  std::string activation = "silu";
  RopeConfig rope;
  std::optional<RopeConfig>
      sliding_rope;  // of sliding-window layers, where it differs (Gemma 3, OLMo 3)
  std::vector<std::string>
      layer_types;  // "full_attention", "sliding_attention", ...; empty: all alike
  bool from_gguf = false;
  QuantConfig quantization;
  ConfigFields fields;  // everything else, by Hugging Face's names
  // config.json's dtype; where it names none, and for a GGUF, open_model takes the matrices'
  // commonest.
  DType stored_dtype = DType::kF32;
  std::vector<TokenId> eos_ids;  // from every place that names one, ascending, no duplicates
  std::optional<TokenId> bos_id;
  // generation_config.json's sampling defaults (absent: the built-in default).
  struct Generation {
    std::optional<double> temperature, top_p, min_p, repetition_penalty;
    std::optional<std::int64_t> top_k;
    // Of answers: what a request gets that names none, and the most that any gets.
    std::optional<std::int64_t> max_new_tokens, max_new_tokens_limit;
  } generation;
};

// config_json must be an object; generation_config_json may be empty.
Result<ModelConfig> parse_hf_config(std::string_view config_json,
                                    std::string_view generation_config_json);
Result<ModelConfig> parse_gguf_config(const GgufFile& file);
// A generation_config.json, or part of one, over what the configuration has: sampling defaults that
// it names replace, ends of sequence are added. name: for messages.
Status apply_generation_config(std::string_view json, std::string_view name, ModelConfig* config);

}  // namespace quire
