// Typed look-ups of a GGUF's metadata below "<architecture>.", and the parts of reading a
// configuration from it. Used by parse_gguf_config only.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/gguf_arch.h"
#include "weights/gguf_file.h"
#include "weights/model_config.h"

namespace quire {

class ArchFields {
 public:
  ArchFields(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  const std::string& name() const { return file_.name(); }
  const GgufFile& file() const { return file_; }
  const GgufValue* find(std::string_view suffix) const { return file_.find(key(suffix)); }

  // *out = the integer; the fallback, or an error, when absent. A per-layer array must be of one
  // value, zeros (layers without) aside.
  template <class T>
  Status read_int(std::string_view suffix, std::optional<std::int64_t> fallback, T* out) const {
    std::optional<std::int64_t> number = fallback;
    if (find(suffix) != nullptr) {
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
  Status read_float(std::string_view suffix, std::optional<double> fallback, double* out) const;
  // Nothing when absent or not a number.
  std::optional<std::int64_t> integer(std::string_view suffix) const {
    return file_.get_int(key(suffix));
  }
  std::optional<double> number(std::string_view suffix) const {
    return file_.get_float(key(suffix));
  }
  // A list of integers or bools; empty when absent.
  std::vector<std::int64_t> integers(std::string_view suffix) const;
  bool has_tensor(std::string_view tensor) const {
    return file_.tensors().contains(std::string(tensor));
  }

 private:
  Result<std::int64_t> one_int(std::string_view suffix) const;

  const GgufFile& file_;
  std::string prefix_;
};

// config->rope and sliding_rope. Needs the head size, the context length and the layer types.
Status read_gguf_rope(const ArchFields& fields, const GgufArch& arch, ModelConfig* config);
// config->fields: metadata under Hugging Face's names, llama.cpp's constants and the facts that
// gguf_arch.h lists. Needs everything else of the configuration.
Status set_gguf_fields(const ArchFields& fields, ModelConfig* config);

}  // namespace quire
