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

constexpr int kStep = 32;           // k that are decoded at a time
constexpr std::int64_t kRows = 16;  // rows that share them

// The weights of 32 k of one output; g: their number inside the unit.
void integer_weights(PackedKind kind, const std::uint8_t* unit, int g, int lane, float* w) {
  const ref::Group group = ref::decode_group(kind, unit, g, lane);
  const bool zero_point = is_g8_kind(kind);
  const bool has_min = ref::has_min(kind) && !zero_point;
  const auto times_256 = [](float x) {
    return static_cast<double>(round_f16(256.0 * static_cast<double>(x)));
  };
  double scale[2], min[2] = {};
  for (int part = 0; part < group.parts; ++part) {
    scale[part] = times_256(group.scale[part]);
    if (has_min) min[part] = times_256(group.min[part]);
  }
  for (int k = 0; k < kStep; ++k) {
    const int code = group.code[k] + (zero_point ? 128 - unit[32 + lane] : 0);
    const int part = k / (kStep / group.parts);
    w[k] = tile_weight(round_f16(min[part] + static_cast<double>(code) * scale[part]));
  }
}
void float8_weights(const std::uint8_t* unit, int g, int lane, float* w) {
  const float scale = round_f16(256.0 * static_cast<double>(ref::float8_scale(unit, lane)));
  for (int k = 0; k < kStep; ++k) {
    const auto value = static_cast<double>(ref::float8_value(unit, g * kStep + k, lane));
    w[k] = tile_weight(round_f16(value * static_cast<double>(scale)));
  }
}

void multiply_channel(const MatmulArgs& args, std::int64_t n, std::int64_t row, std::int64_t rows) {
  const PackedKind kind = args.shape.kind;
  const int groups = packed_kind_info(kind).unit_k / kStep;
  const ref::Channel channel = ref::find_channel(args, n);
  const auto* a = static_cast<const std::uint16_t*>(args.a) + row * args.a_stride;
  float acc[kRows] = {}, w[kStep];
  for (std::int64_t g = 0; g < args.shape.units() * groups; ++g) {
    const std::uint8_t* unit = channel.unit + g / groups * channel.unit_stride;
    const int inside = static_cast<int>(g % groups);
    is_float8_kind(kind) ? float8_weights(unit, inside, channel.lane, w)
                         : integer_weights(kind, unit, inside, channel.lane, w);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (int k = 0; k < kStep; ++k)
        acc[r] = std::fma(bf16_to_f32(a[r * args.a_stride + g * kStep + k]), w[k], acc[r]);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) ref::store(args, row + r, n, acc[r] * args.unscale);
}

void multiply_tiles(const MatmulArgs& args) {
  const std::int64_t begin = args.panel_begin * kPanelStrips * kStrip;
  const std::int64_t end = args.panel_end * kPanelStrips * kStrip;
  for (std::int64_t n = begin; n < end && n < args.shape.n; ++n)
    for (std::int64_t row = 0; row < args.m; row += kRows)
      multiply_channel(args, n, row, args.m - row < kRows ? args.m - row : kRows);
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
