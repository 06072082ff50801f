// The packed layout of float kinds, element by element as packed.h states it: every pair of stored
// and packed type, sizes that fill no strip and no unit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/packed.h"
#include "tensor/half.h"

namespace quire {
namespace {

std::uint16_t half_at(const std::vector<std::byte>& bytes, std::int64_t at) {
  std::uint16_t half;
  std::memcpy(&half, bytes.data() + at, 2);
  return half;
}
float float_at(const std::vector<std::byte>& bytes, std::int64_t at) {
  float f;
  std::memcpy(&f, bytes.data() + at, 4);
  return f;
}

float stored_value(DType stored, const std::vector<std::byte>& bytes, std::int64_t element) {
  if (stored == DType::kF32) return float_at(bytes, 4 * element);
  return stored == DType::kF16 ? f16_to_f32(half_at(bytes, 2 * element))
                               : bf16_to_f32(half_at(bytes, 2 * element));
}

// What the packed matrix must hold for this value, as bits.
std::uint32_t packed_bits(PackedKind kind, float f) {
  if (kind == PackedKind::kF32) return std::bit_cast<std::uint32_t>(f);
  return kind == PackedKind::kF16 ? f32_to_f16(f) : f32_to_bf16(f);
}

// Element [n, k] of the packed matrix, as bits.
std::uint32_t element_of(const PackedShape& shape, const std::vector<std::byte>& packed,
                         std::int64_t n, std::int64_t k) {
  const std::int64_t strip = n / kStrip, panel = strip / kPanelStrips, lane = n % kStrip;
  const std::int64_t strips =
      std::min<std::int64_t>(kPanelStrips, shape.strips() - panel * kPanelStrips);
  const std::int64_t unit = shape.panel_offset(panel) + (k / 2 * strips + strip % kPanelStrips) *
                                                            packed_kind_info(shape.kind).unit_bytes;
  switch (shape.kind) {
    case PackedKind::kF32:
      return std::bit_cast<std::uint32_t>(float_at(packed, unit + k % 2 * 64 + lane * 4));
    case PackedKind::kF16:
      return half_at(packed, unit + k % 2 * 32 + lane * 2);
    default:
      return half_at(packed, unit + lane * 4 + k % 2 * 2);
  }
}

// Patterns of bits: every f16 is among them when there are enough.
std::vector<std::byte> stored_matrix(DType stored, std::int64_t elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements * dtype_info(stored).block_bytes));
  for (std::int64_t i = 0; i < elements; ++i) {
    if (stored == DType::kF32) {
      const float f = std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 60 - 30));
      std::memcpy(bytes.data() + 4 * i, &f, 4);
    } else {
      const auto half = static_cast<std::uint16_t>(i * 7);
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
  }
  return bytes;
}

void expect_layout(DType stored, PackedKind kind, std::int64_t n, std::int64_t k) {
  const PackedShape shape{kind, n, k};
  const std::vector<std::byte> rows = stored_matrix(stored, n * k);
  // What lies in the memory before is overwritten, padding too.
  std::vector<std::byte> packed(static_cast<std::size_t>(shape.bytes()), std::byte{0xa5});
  pack_panels(shape, stored, rows.data(), row_bytes(stored, k), 0, shape.panels(), packed.data());
  for (std::int64_t r = 0; r < shape.strips() * kStrip; ++r) {
    for (std::int64_t c = 0; c < shape.padded_k(); ++c) {
      const std::uint32_t got = element_of(shape, packed, r, c);
      if (r >= n || c >= k) {
        ASSERT_EQ(got, 0u) << r << ", " << c;
        continue;
      }
      const float value = stored_value(stored, rows, r * k + c);
      if (std::isnan(value)) continue;  // any NaN
      ASSERT_EQ(got, packed_bits(kind, value)) << r << ", " << c << " of " << n << " x " << k;
    }
  }
}

TEST(PackFloat, EveryTypeAndSizeAsTheLayoutSays) {
  for (const DType stored : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const PackedKind kind : {PackedKind::kF32, PackedKind::kF16, PackedKind::kBF16}) {
      SCOPED_TRACE(std::string(dtype_name(stored)) + " as " + packed_kind_info(kind).name);
      expect_layout(stored, kind, 128, 512);  // 65,536 elements: every f16
      expect_layout(stored, kind, 1, 1);
      expect_layout(stored, kind, 83, 71);
      expect_layout(stored, kind, 16, 33);
    }
  }
}

}  // namespace
}  // namespace quire
