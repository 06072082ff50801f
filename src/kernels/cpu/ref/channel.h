// One output of a packed matrix, for the scalar products: where its units lie, and its sum's way to
// C.
#pragma once

#include "kernels/cpu/matmul_kernels.h"

namespace quire::ref {

// Where the units of output n lie.
struct Channel {
  const std::uint8_t* unit;  // unit 0 of its strip
  std::int64_t unit_stride;  // bytes between units
  int lane;
};
inline Channel find_channel(const MatmulArgs& args, std::int64_t n) {
  const std::int64_t strip = n / kStrip, panel = strip / kPanelStrips, first = panel * kPanelStrips;
  const std::int64_t left = args.shape.strips() - first;
  const std::int64_t strips = left < kPanelStrips ? left : kPanelStrips;
  const std::int64_t unit_bytes = packed_kind_info(args.shape.kind).unit_bytes;
  const auto* base =
      reinterpret_cast<const std::uint8_t*>(args.weights) + args.shape.panel_offset(panel);
  return {base + (strip - first) * unit_bytes, strips * unit_bytes, static_cast<int>(n % kStrip)};
}

inline void store(const MatmulArgs& args, std::int64_t row, std::int64_t n, float acc) {
  const float value = args.bias ? acc + args.bias[n] : acc;
  float& c = args.c[row * args.ldc + n];
  c = args.accumulate ? c + value : value;
}

}  // namespace quire::ref
