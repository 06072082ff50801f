// Any bytes as a GGUF file: parse, then everything that is derived from the metadata and the
// tensors.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weights/gguf_file.h"
#include "weights/gguf_names.h"
#include "weights/model_config.h"
#include "weights/weight_source.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = quire::GgufFile::parse(bytes, "fuzz.gguf");
  if (!file) return 0;
  std::size_t seen = 0;
  for (const auto& [key, value] : file->metadata()) {
    seen += file->get_string(key).value_or("").size() + (file->get_array(key) != nullptr);
    seen += file->get_float(key).has_value() + file->get_bool(key).has_value();
  }
  std::vector<float> row;
  for (const std::string& name : file->tensor_names()) {
    seen += quire::hf_name_of_gguf(name).size();
    const quire::TensorView view = file->tensors().at(name);
    if (!quire::can_dequantize(view.dtype)) continue;
    row.resize(static_cast<std::size_t>(view.columns()));
    quire::dequantize_row(view, 0, row.data());
    quire::dequantize_row(view, view.rows() - 1, row.data());
  }
  const auto config = quire::parse_gguf_config(*file);
  return config && seen == ~std::size_t{0} ? 1 : 0;
}
