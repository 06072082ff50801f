// Any bytes as a safetensors file: parse, then touch the first and last byte of every tensor.
#include <cstddef>
#include <cstdint>
#include <span>

#include "weights/safetensors_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = quire::SafetensorsFile::parse(bytes, "fuzz.safetensors");
  if (!file) return 0;
  unsigned sum = 0;
  for (const auto& [name, view] : file->tensors()) {
    sum += std::to_integer<unsigned>(view.data[0]);
    sum += std::to_integer<unsigned>(view.data[view.bytes() - 1]);
  }
  return sum == ~0u ? 1 : 0;
}
