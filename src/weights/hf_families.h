// What a model type means where its config.json is silent: the traits and defaults of each family's
// configuration class in transformers. Tables only; a model type that is not listed gets none.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// Which layers a sliding window concerns when config.json has no layer_types.
enum class WindowRule : std::uint8_t {
  kNone,         // the family has no window, whatever the file says
  kEveryLayer,   // sliding_window, when it is not null
  kUseFlag,      // use_sliding_window, from layer max_window_layers on
  kAfterMax,     // from layer max_window_layers on (dots)
  kPattern,      // every sliding_window_pattern-th layer is full
  kRopeLayers,   // use_sliding_window, on the layers that no_rope_layers leaves without rotary
                 // (SmolLM3)
  kChunked,      // Llama 4: chunked attention on the layers with rotary
  kLinear,       // Qwen3-Next: every full_attention_interval-th layer is full attention
  kConv,         // LFM2: full_attn_idxs, else convolution
  kMambaPeriod,  // Jamba: attention where i % attn_layer_period == attn_layer_offset
};

// Which matrices have a bias.
enum class BiasRule : std::uint8_t {
  kNone,
  kFlag,     // attention_bias for q, k, v and o; mlp_bias
  kQkvFlag,  // the flag for q, k and v only; o: attention_out_bias
  kQkv,      // q, k and v always
  kAllFlag,  // one flag (use_bias, bias, enable_bias) for all
  kAll,
};

struct HfFamily {
  std::string_view model_type;
  WindowRule window = WindowRule::kNone;
  BiasRule bias = BiasRule::kFlag;
  bool interleaved = false;  // rotary pairs are (2i, 2i + 1)
  bool rotary = true;        // false: no rotary positions (learned, ALiBi, state space)
  bool attention = true;     // false: no attention heads at all (Mamba)
};

// The family's row, or one without a name for a type that has none.
const HfFamily& hf_family(std::string_view model_type);

// The model type with a row that is spelled most like this one.
std::string_view nearest_model_type(std::string_view model_type);

// "mistral3" -> what its text half is; other names as they are, '-' as '_'.
std::string normalized_model_type(std::string_view model_type);
// "LlamaForCausalLM" -> "llama"; the lower-case words otherwise: "FooBarForCausalLM" -> "foo_bar".
std::string model_type_of_class(std::string_view class_name);

// Adds the family's defaults to the object for keys that are absent (null counts as present).
void add_family_defaults(std::string_view model_type, boost::json::object* config);

}  // namespace quire
