// Any bytes as config.json, a zero byte, generation_config.json.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weights/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t split = text.find('\0');
  const std::string_view generation =
      split == std::string_view::npos ? std::string_view() : text.substr(split + 1);
  const auto config = quire::parse_hf_config(text.substr(0, split), generation);
  return config && config->num_layers == -1 ? 1 : 0;
}
