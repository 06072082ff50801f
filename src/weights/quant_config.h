// How a checkpoint's weights are quantized, as its config.json (`quantization_config`) or a
// quantize_config.json beside it says: the method, its sizes and its exceptions. Whether a layer is
// quantized at all is seen from its tensors (quantized_weights.h), not from lists of names.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace quire {

enum class QuantMethod : std::uint8_t { kNone, kAwq, kGptq, kCompressedTensors, kFp8, kMxfp4 };

// The numbers of one layer's weights.
struct QuantScheme {
  std::int32_t bits = 4;
  std::int64_t group_size = 128;  // inputs that share a scale; -1: all of them
  bool floating = false;          // float8_e4m3 codes instead of integers
  bool symmetric = true;          // compressed-tensors: no zero points are stored
  // FP8: outputs that share a scale; -1: all of them.
  std::int64_t group_rows = 1;
};

// A regular expression of Python's re.match, or a plain name.
class NamePattern {
 public:
  // name: the file, for messages.
  static Result<NamePattern> regex(const std::string& text, std::string_view name);
  static NamePattern exact(std::string text);
  bool matches(const std::string& module) const;

 private:
  struct Compiled;
  std::string text_;
  std::shared_ptr<const Compiled> compiled_;  // null: exact
};

struct QuantConfig {
  QuantMethod method = QuantMethod::kNone;
  std::string method_name;      // as the file spells it: "gptq"
  std::string format;           // compressed-tensors' own name: "pack-quantized"
  QuantScheme scheme;           // of layers that no rule names
  bool zeros_less_one = false;  // GPTQ v1: the file holds zero points minus one
  bool act_order = false;
  std::int32_t online_bits = 0;  // 8, 4: --quantization quantizes plain matrices at load

  // GPTQ's `dynamic`, compressed-tensors' groups that name modules: the first that matches decides.
  struct Rule {
    NamePattern pattern;
    QuantScheme scheme;
  };
  std::vector<Rule> rules;

  // The scheme of a layer ("model.layers.0.self_attn.q_proj").
  const QuantScheme& scheme_of(const std::string& module) const;
  // "gptq, 4 bits, groups of 128, activation order"; "none".
  std::string describe() const;
};

// From a quantization_config. name: the file, for messages.
Result<QuantConfig> parse_quant_config(const boost::json::object& object, std::string_view name);

// --quantization: "int8" and "int4" set online_bits, for a file of plain numbers (of type
// `stored`); any other name, vLLM's, must be what the file has. is_gguf: that is "gguf".
Status apply_quantization(std::string_view asked, DType stored, bool is_gguf, QuantConfig* config);

}  // namespace quire
