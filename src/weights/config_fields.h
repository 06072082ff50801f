// The fields of a model's configuration beyond those that ModelConfig names, by their Hugging Face
// names: what an architecture's file asks for. Nested objects are flattened with dots
// ("attn_config.clip_qkv"); a multimodal model's text_config is taken as the whole. A GGUF's
// metadata is given under the same names (see gguf_config tables).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace quire {

class ConfigFields {
 public:
  using Value =
      std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                   std::vector<double>,
                   std::vector<std::string>>;  // null fields are absent; bool lists are ints
  void set(std::string name, Value value) {
    values_.insert_or_assign(std::move(name), std::move(value));
  }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  // The field, or `otherwise` when absent or of a type that doesn't convert (numbers and bools
  // convert to each other).
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  bool boolean(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(
      std::string_view name) const;  // empty when absent; a scalar gives one element
  std::vector<double> numbers(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  // kBadFile naming the field when absent or of another type.
  Result<std::int64_t> need_integer(std::string_view name) const;
  Result<double> need_number(std::string_view name) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace quire
