// quantization_config of every method. Values that change what the tensors mean and that no reader
// here knows are refused by name.
#include "weights/quant_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <regex>

#include "weights/checked.h"
#include "weights/json_fields.h"

namespace quire {
namespace json = boost::json;

// ---- patterns

struct NamePattern::Compiled {
  std::regex regex;
};

Result<NamePattern> NamePattern::regex(const std::string& text, std::string_view name) {
  constexpr std::size_t kMost = 500;
  NamePattern pattern;
  pattern.text_ = text;
  try {
    if (text.size() > kMost) throw std::regex_error(std::regex_constants::error_space);
    pattern.compiled_ = std::make_shared<const Compiled>(Compiled{std::regex(text)});
  } catch (const std::regex_error&) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: quantization_config: \"{}\" is not a regular expression that can be "
                      "read (ECMAScript syntax, {} bytes at most)",
                      name, printable(text), kMost);
  }
  return pattern;
}

NamePattern NamePattern::exact(std::string text) {
  NamePattern pattern;
  pattern.text_ = std::move(text);
  return pattern;
}

bool NamePattern::matches(const std::string& module) const {
  constexpr std::size_t kMost = 500;  // no layer's name is longer; the matcher recurses
  if (!compiled_ || module.size() > kMost) return module == text_;
  try {
    return std::regex_search(module, compiled_->regex, std::regex_constants::match_continuous);
  } catch (const std::regex_error&) {  // it became too complex
    return false;
  }
}

// ---- the methods

namespace {

constexpr const char* kField = "quantization_config";

template <class... Args>
tl::unexpected<Error> refuse(const JsonFields& fields, fmt::format_string<Args...> format,
                             Args&&... args) {
  return make_error(ErrorCode::kUnsupported, "{}: {}: {}", fields.name(), kField,
                    fmt::format(format, std::forward<Args>(args)...));
}

// The text of a field, which must be one of `known` where it is there at all.
Result<std::string> one_of(const JsonFields& fields, std::string_view key, std::string otherwise,
                           std::initializer_list<std::string_view> known) {
  QUIRE_ASSIGN(const auto text, fields.get_string(key));
  if (!text) return otherwise;
  std::string lower = *text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (std::find(known.begin(), known.end(), lower) != known.end()) return lower;
  std::string list;
  for (const std::string_view each : known)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", each);
  return refuse(fields, "{} \"{}\" is not supported; known: {}", key, printable(*text), list);
}

Status read_bits(const JsonFields& fields, std::string_view key, QuantScheme* scheme) {
  QUIRE_ASSIGN(const auto bits, fields.get_int(key));
  if (!bits) return {};
  if (*bits != 4 && *bits != 8)
    return refuse(fields, "{} is {}; weights of 4 and 8 bits are supported", key, *bits);
  scheme->bits = static_cast<std::int32_t>(*bits);
  return {};
}

Status read_group_size(const JsonFields& fields, QuantScheme* scheme) {
  QUIRE_ASSIGN(const auto size, fields.get_int("group_size"));
  if (!size) return {};
  if (*size != -1 && (*size < 1 || *size > (1 << 24)))
    return refuse(fields, "group_size is {}; a positive number of inputs, or -1 for all, is needed",
                  *size);
  scheme->group_size = *size;
  return {};
}

Status read_awq(const JsonFields& fields, QuantConfig* config) {
  QUIRE_TRY(one_of(fields, "version", "gemm", {"gemm"}));
  for (const char* key : {"bits", "w_bit"}) QUIRE_TRY(read_bits(fields, key, &config->scheme));
  if (config->scheme.bits != 4)
    return refuse(fields, "AWQ of {} bits is not supported; 4 are", config->scheme.bits);
  QUIRE_ASSIGN(const auto older, fields.get_int("q_group_size"));
  if (older) config->scheme.group_size = *older;
  QUIRE_TRY(read_group_size(fields, &config->scheme));
  QUIRE_ASSIGN(const auto zero_point, fields.get_bool("zero_point"));
  if (zero_point && !*zero_point)
    return refuse(fields, "AWQ without zero points (zero_point false) is not supported");
  return {};
}

// One entry of GPTQ's `dynamic`: "+:regex", "-:regex" or "regex". What "-:" leaves plain has a
// plain tensor, so its rule changes nothing.
Status add_dynamic(const json::key_value_pair& entry, const JsonFields& fields,
                   QuantConfig* config) {
  std::string text(entry.key());
  const bool plain = text.starts_with("-:");
  if (plain || text.starts_with("+:")) text.erase(0, 2);
  QuantConfig::Rule rule;
  QUIRE_ASSIGN(rule.pattern, NamePattern::regex(text, fields.name()));
  rule.scheme = config->scheme;
  if (entry.value().is_object()) {
    const JsonFields own(entry.value().get_object(), fields.name());
    QUIRE_TRY(read_bits(own, "bits", &rule.scheme));
    QUIRE_TRY(read_group_size(own, &rule.scheme));
  }
  config->rules.push_back(std::move(rule));
  return {};
}

Status read_gptq(const JsonFields& fields, QuantConfig* config) {
  QUIRE_TRY(one_of(fields, "pack_dtype", "int32", {"int32"}));
  QUIRE_ASSIGN(const std::string format,
               one_of(fields, "checkpoint_format", "gptq", {"gptq", "gptq_v2"}));
  config->zeros_less_one = format == "gptq";
  QUIRE_TRY(read_bits(fields, "bits", &config->scheme));
  QUIRE_TRY(read_group_size(fields, &config->scheme));
  QUIRE_ASSIGN(const auto act_order, fields.get_bool("desc_act"));
  config->act_order = act_order.value_or(false);
  QUIRE_ASSIGN(const json::object* dynamic, fields.get_object("dynamic"));
  if (dynamic == nullptr) return {};
  for (const auto& entry : *dynamic) QUIRE_TRY(add_dynamic(entry, fields, config));
  return {};
}

Result<QuantScheme> read_ct_weights(const JsonFields& fields) {
  QuantScheme scheme;
  QUIRE_ASSIGN(const std::string type, one_of(fields, "type", "int", {"int", "float"}));
  scheme.floating = type == "float";
  QUIRE_TRY(read_bits(fields, "num_bits", &scheme));
  if (scheme.floating && scheme.bits != 8)
    return refuse(fields, "floating weights of {} bits are not supported; 8 are", scheme.bits);
  QUIRE_ASSIGN(const auto symmetric, fields.get_bool("symmetric"));
  scheme.symmetric = symmetric.value_or(true);
  const char* otherwise = fields.find("group_size") != nullptr ? "group" : "tensor";
  QUIRE_ASSIGN(const std::string strategy,
               one_of(fields, "strategy", otherwise, {"tensor", "channel", "group", "block"}));
  scheme.group_size = -1;
  scheme.group_rows = strategy == "tensor" ? -1 : 1;
  if (strategy == "group") QUIRE_TRY(read_group_size(fields, &scheme));
  if (strategy == "block") {
    QUIRE_ASSIGN(const auto block, fields.get_ints("block_structure"));
    if (block.size() != 2 || block[0] < 1 || block[1] < 1)
      return refuse(fields, "block_structure: two positive numbers are needed");
    scheme.group_rows = block[0];
    scheme.group_size = block[1];
  }
  return scheme;
}

Status add_ct_group(const JsonFields& group, QuantConfig* config, bool* has_default) {
  QUIRE_ASSIGN(const json::object* weights, group.get_object("weights"));
  if (weights == nullptr) return {};
  const JsonFields weight_fields(*weights, group.name());
  QUIRE_ASSIGN(const QuantScheme scheme, read_ct_weights(weight_fields));
  config->act_order |= weight_fields.find("actorder") != nullptr;
  const json::value* targets = group.find("targets");
  if (targets == nullptr || !targets->is_array())
    return refuse(group, "a config group without a list of targets");
  for (const json::value& target : targets->get_array()) {
    if (!target.is_string()) return refuse(group, "targets: a list of names is needed");
    const std::string text(target.get_string());
    if (text.find('.') == std::string::npos && !text.starts_with("re:")) {  // a class: "Linear"
      config->scheme = scheme;
      *has_default = true;
      continue;
    }
    QuantConfig::Rule rule{NamePattern::exact(text), scheme};
    if (text.starts_with("re:")) {
      QUIRE_ASSIGN(rule.pattern, NamePattern::regex(text.substr(3), group.name()));
    }
    config->rules.push_back(std::move(rule));
  }
  return {};
}

Status read_compressed_tensors(const JsonFields& fields, QuantConfig* config) {
  QUIRE_ASSIGN(config->format, one_of(fields, "format", "",
                                      {"pack-quantized", "int-quantized", "naive-quantized",
                                       "float-quantized", "mixed-precision"}));
  for (const char* key : {"sparsity_config", "transform_config"}) {
    QUIRE_ASSIGN(const json::object* other, fields.get_object(key));
    if (other == nullptr || other->empty()) continue;
    QUIRE_ASSIGN(const auto format, JsonFields(*other, fields.name()).get_string("format"));
    if (format.value_or("") != "dense") return refuse(fields, "{} is not supported", key);
  }
  QUIRE_ASSIGN(const json::object* groups, fields.get_object("config_groups"));
  if (groups == nullptr || groups->empty())
    return refuse(fields, "compressed-tensors without config_groups");
  bool has_default = false;
  for (const auto& group : *groups) {
    if (!group.value().is_object())
      return refuse(fields, "config_groups: \"{}\" is not an object",
                    printable(std::string(group.key())));
    QUIRE_TRY(
        add_ct_group(JsonFields(group.value().get_object(), fields.name()), config, &has_default));
  }
  if (!has_default && !config->rules.empty()) config->scheme = config->rules.front().scheme;
  return {};
}

Status read_fp8(const JsonFields& fields, QuantConfig* config) {
  QUIRE_TRY(one_of(fields, "fmt", "e4m3", {"e4m3", "float8_e4m3fn"}));
  QUIRE_TRY(one_of(fields, "activation_scheme", "dynamic", {"dynamic", "static"}));
  config->scheme = {8, -1, true, true, -1};
  QUIRE_ASSIGN(const auto block, fields.get_ints("weight_block_size"));
  if (block.empty()) return {};
  if (block.size() != 2 || block[0] < 1 || block[1] < 1)
    return refuse(fields, "weight_block_size: two positive numbers are needed");
  config->scheme.group_rows = block[0];
  config->scheme.group_size = block[1];
  return {};
}

std::string groups_text(const QuantScheme& scheme, QuantMethod method) {
  if (method == QuantMethod::kMxfp4) return "groups of 32";
  if (scheme.floating && scheme.group_rows > 1)
    return fmt::format("blocks of {} x {}", scheme.group_rows, scheme.group_size);
  if (scheme.floating && scheme.group_rows < 0) return "a scale per matrix";
  if (scheme.group_size < 0) return "a scale per output";
  return fmt::format("groups of {}", scheme.group_size);
}

}  // namespace

const QuantScheme& QuantConfig::scheme_of(const std::string& module) const {
  for (const Rule& rule : rules) {
    if (rule.pattern.matches(module)) return rule.scheme;
  }
  return scheme;
}

std::string QuantConfig::describe() const {
  if (method == QuantMethod::kNone) return "none";
  return fmt::format("{}{}, {}, {}{}{}", method_name, format.empty() ? "" : " " + format,
                     scheme.floating ? "float8_e4m3" : fmt::format("{} bits", scheme.bits),
                     groups_text(scheme, method), act_order ? ", activation order" : "",
                     rules.empty() ? "" : fmt::format(", {} rules by name", rules.size()));
}

Result<QuantConfig> parse_quant_config(const json::object& object, std::string_view name) {
  const JsonFields fields(object, name);
  QuantConfig config;
  QUIRE_ASSIGN(const auto method, fields.get_string("quant_method"));
  config.method_name = method.value_or("unknown");
  struct Entry {
    std::string_view name;
    QuantMethod method;
    Status (*read)(const JsonFields&, QuantConfig*);
  };
  static constexpr Entry kMethods[] = {
      {"awq", QuantMethod::kAwq, read_awq},
      {"gptq", QuantMethod::kGptq, read_gptq},
      {"compressed-tensors", QuantMethod::kCompressedTensors, read_compressed_tensors},
      {"fp8", QuantMethod::kFp8, read_fp8},
      {"mxfp4", QuantMethod::kMxfp4, [](const JsonFields&, QuantConfig*) { return Status(); }},
  };
  for (const Entry& entry : kMethods) {
    if (entry.name != config.method_name) continue;
    config.method = entry.method;
    QUIRE_TRY(entry.read(fields, &config));
    return config;
  }
  if (!method && fields.find("group_size") != nullptr) config.method_name = "mlx";
  return make_error(ErrorCode::kUnsupported,
                    "{}: quantization method \"{}\" is not supported; known: awq, gptq, "
                    "compressed-tensors, fp8, mxfp4; use one of these, the unquantized model or a "
                    "GGUF file",
                    name, printable(config.method_name));
}

Status apply_quantization(std::string_view asked, DType stored, bool is_gguf, QuantConfig* config) {
  const bool quantized = config->method != QuantMethod::kNone;
  const std::string has = is_gguf ? "gguf" : quantized ? config->method_name : "";
  if (asked == "int8" || asked == "int4") {
    if (quantized || is_quantized(stored))
      return field_error("--quantization",
                         "--quantization {}: the model's weights are quantized already ({}); leave "
                         "the option out, or give a model of bfloat16, float16 or float32 weights",
                         asked, quantized ? std::string_view(has) : dtype_name(stored));
    config->online_bits = asked == "int8" ? 8 : 4;
    return {};
  }
  std::string_view wanted = asked;
  // vLLM's names of the same formats for other kernels of its own.
  if (wanted == "awq_marlin") wanted = "awq";
  if (wanted == "gptq_marlin") wanted = "gptq";
  if (wanted.empty() || wanted == has) return {};
  if (has.empty())
    return field_error("--quantization",
                       "--quantization {}: the model is not quantized; leave the option out, or "
                       "give int8 or int4 to quantize it while it is loaded",
                       asked);
  return field_error("--quantization",
                     "--quantization {}: the model's weights are {}; leave the option out, or give "
                     "{}",
                     asked, has, has);
}

}  // namespace quire
