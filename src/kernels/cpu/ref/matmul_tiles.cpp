// The reference of products that turn integer and float8 weights into bf16 (amx/unpack.h): scalar.
// A tile unit adds in an order of its own, so sums agree within a tolerance only.
#include <cmath>
#include <cstring>

#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/ref/channel.h"
#include "kernels/cpu/ref/decode.h"

namespace quire {
namespace {

// f16 of an exact value, rounded once: first to an odd f32, which keeps that bits were lost.
float round_f16(double exact) {
  float f = static_cast<float>(exact);
  if (std::isfinite(f) && static_cast<double>(f) != exact) {
    if (std::fabs(static_cast<double>(f)) > std::fabs(exact)) f = std::nextafter(f, 0.0f);
    std::uint32_t bits;
    std::memcpy(&bits, &f, 4);
    bits |= 1;
    std::memcpy(&f, &bits, 4);
  }
  return f16_to_f32(f32_to_f16(f));
}

// The bits of an f16 that holds 2^8 w as a bf16 of w.
float tile_weight(float w16) {
  const std::uint16_t bits = f32_to_f16(w16);
  const int magnitude = ((bits & 0x7fff) + 4) >> 3;
  if (magnitude < 0x80) return 0.0f;  // no bf16 but a subnormal one, which the tile unit reads as 0
  const auto rounded = static_cast<std::uint16_t>((bits & 0x8000) | magnitude);
  return std::ldexp(bf16_to_f32(rounded), 104);
}

float integer_weight(PackedKind kind, const std::uint8_t* unit, int lane, const ref::Group& group,
                     int k) {
  const float scale = round_f16(256.0 * static_cast<double>(group.scale[k / (32 / group.parts)]));
  int code = group.code[k];
  double w = 0;
  if (is_g8_kind(kind))
    code += 128 - unit[32 + lane];
  else if (ref::has_min(kind))
    w = static_cast<double>(round_f16(256.0 * static_cast<double>(group.min)));
  return tile_weight(round_f16(w + static_cast<double>(code) * static_cast<double>(scale)));
}
float float8_weight(const std::uint8_t* unit, int k, int lane) {
  const float scale = round_f16(256.0 * static_cast<double>(ref::float8_scale(unit, lane)));
  const auto value = static_cast<double>(ref::float8_value(unit, k, lane));
  return tile_weight(round_f16(value * static_cast<double>(scale)));
}

void multiply_tiles(const MatmulArgs& args) {
  const PackedKind kind = args.shape.kind;
  const int unit_k = packed_kind_info(kind).unit_k;
  const std::int64_t begin = args.panel_begin * kPanelStrips * kStrip;
  const std::int64_t end = args.panel_end * kPanelStrips * kStrip;
  for (std::int64_t n = begin; n < end && n < args.shape.n; ++n) {
    const ref::Channel channel = ref::find_channel(args, n);
    for (std::int64_t row = 0; row < args.m; ++row) {
      const auto* a = static_cast<const std::uint16_t*>(args.a) + row * args.a_stride;
      float acc = 0;
      for (std::int64_t k = 0; k < args.shape.padded_k(); ++k) {
        const std::uint8_t* unit = channel.unit + k / unit_k * channel.unit_stride;
        const int inside = static_cast<int>(k % unit_k);
        float w;
        if (is_float8_kind(kind)) {
          w = float8_weight(unit, inside, channel.lane);
        } else {
          const ref::Group group = ref::decode_group(kind, unit, inside / 32, channel.lane);
          w = integer_weight(kind, unit, channel.lane, group, inside % 32);
        }
        acc = std::fma(bf16_to_f32(a[k]), w, acc);
      }
      ref::store(args, row, n, acc * args.unscale);
    }
  }
}

}  // namespace

void fill_matmul_ref_tiles(MatmulKernels* table) {
  table->integers_as_bf16 = true;
  table->bf16_factor = 0x1p64f;
  for (int kind = 0; kind < kNumPackedKinds; ++kind) {
    if (is_block_kind(static_cast<PackedKind>(kind)))
      table->matmul[kind][static_cast<int>(ActForm::kBF16)] = multiply_tiles;
  }
}

}  // namespace quire
