// GGML's tensor type numbers: names for messages, and the DType of those that Quire reads.
// Source: enum ggml_type.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace quire {

struct GgmlType {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> dtype;  // nullopt: known, but not supported
};
// nullptr when the number is unknown.
const GgmlType* find_ggml_type(std::uint32_t number);

}  // namespace quire
