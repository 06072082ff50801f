// Element types of tensors: plain numbers and quantized blocks. Storage facts only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire {

// The block kinds carry GGML's names where it has them; their layouts are in tensor/quant_blocks.h.
enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kNVFP4,
  kTQ1_0,
  kTQ2_0,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  // Of quantized checkpoints, one scale per block; the number is the block's elements.
  kG4_32,
  kG4_64,
  kG4_128,
  kG4_256,
  kG8_32,
  kG8_64,
  kG8_128,
  kG8_256,
  kF8_32,
  kF8_128,
};
inline constexpr int kNumDTypes = 45;

struct DTypeInfo {
  std::string_view name;        // "F32", "Q4_K"
  std::int32_t block_elements;  // elements of one block; 1 for plain numbers
  std::int32_t block_bytes;
};
const DTypeInfo& dtype_info(DType dtype);
inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
inline bool is_quantized(DType dtype) { return dtype_info(dtype).block_elements > 1; }
// Bytes of a row of `elements`; elements must be a multiple of the block's.
inline std::int64_t row_bytes(DType dtype, std::int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  return elements / info.block_elements * info.block_bytes;
}

// How a model computes (DESIGN: what a matrix product does at its door).
enum class ComputeDType : std::uint8_t { kAuto, kFloat32, kBFloat16, kFloat16 };
std::optional<ComputeDType> parse_compute_dtype(std::string_view text);

}  // namespace quire
