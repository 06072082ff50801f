// The reference matrix products: scalar, in the order that matmul_kernels.h fixes. The oracle of
// all others.
#include <cmath>

#include "kernels/cpu/isa_tables.h"
#include "kernels/cpu/ref/channel.h"
#include "kernels/cpu/ref/decode.h"

namespace quire {
namespace {

constexpr std::int64_t kRows = 16;  // rows that share the decoding of a group

// acc += row . group with int8 activations; g: the group's number inside the row.
float add_int8_group(const MatmulArgs& args, const ref::Group& group, std::int64_t row,
                     std::int64_t g, float acc) {
  const std::int8_t* a = static_cast<const std::int8_t*>(args.a) + row * args.a_stride + g * 32;
  const float scale = args.a_scale[row * args.scale_stride + g];
  const int part_k = 32 / group.parts;
  for (int part = 0; part < group.parts; ++part) {
    std::int32_t i = 0;
    for (int k = part * part_k; k < (part + 1) * part_k; ++k) i += group.code[k] * a[k];
    acc = std::fma(static_cast<float>(i) * group.scale[part], scale, acc);
    if (!ref::has_min(args.shape.kind)) continue;
    const std::int64_t at = row * args.scale_stride + g;
    const float sum =
        group.parts == 1 ? args.a_sum[at] : scale * static_cast<float>(args.a_isum[2 * at + part]);
    acc = std::fma(group.min[part], sum, acc);
  }
  return acc;
}

float add_f32_group(const MatmulArgs& args, const ref::Group& group, std::int64_t row,
                    std::int64_t g, float acc) {
  const float* a = static_cast<const float*>(args.a) + row * args.a_stride + g * 32;
  for (int k = 0; k < 32; ++k)
    acc = std::fma(a[k], ref::group_value(args.shape.kind, group, k), acc);
  return acc;
}

// acc += scale * (row . unit) of float8 codes with bf16 activations.
float add_float8_unit(const MatmulArgs& args, const std::uint8_t* unit, int lane, std::int64_t row,
                      std::int64_t u, float acc) {
  const int unit_k = packed_kind_info(args.shape.kind).unit_k;
  const auto* a = static_cast<const std::uint16_t*>(args.a) + row * args.a_stride + u * unit_k;
  float sum = 0;
  for (int k = 0; k < unit_k; ++k)
    sum = std::fma(bf16_to_f32(a[k]), ref::float8_value(unit, k, lane), sum);
  return std::fma(sum, ref::float8_scale(unit, lane), acc);
}

template <ActForm form>
void multiply_channel(const MatmulArgs& args, std::int64_t n, std::int64_t row, std::int64_t rows) {
  const ref::Channel channel = ref::find_channel(args, n);
  const PackedKind kind = args.shape.kind;
  const int unit_k = packed_kind_info(kind).unit_k;
  float acc[kRows] = {};
  for (std::int64_t u = 0; u < args.shape.units(); ++u) {
    const std::uint8_t* unit = channel.unit + u * channel.unit_stride;
    if (form == ActForm::kBF16 && is_float8_kind(kind)) {
      for (std::int64_t r = 0; r < rows; ++r)
        acc[r] = add_float8_unit(args, unit, channel.lane, row + r, u, acc[r]);
      continue;
    }
    if (!is_integer_kind(kind)) {
      for (int k = 0; k < unit_k; ++k) {
        const float w = ref::float_value(kind, unit, k, channel.lane);
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t at = (row + r) * args.a_stride + u * unit_k + k;
          const float a = form == ActForm::kBF16
                              ? bf16_to_f32(static_cast<const std::uint16_t*>(args.a)[at])
                              : static_cast<const float*>(args.a)[at];
          acc[r] = std::fma(a, w, acc[r]);
        }
      }
      continue;
    }
    for (int g = 0; g < unit_k / 32; ++g) {
      const ref::Group group = ref::decode_group(kind, unit, g, channel.lane);
      const std::int64_t at = u * (unit_k / 32) + g;
      for (std::int64_t r = 0; r < rows; ++r)
        acc[r] = form == ActForm::kInt8 ? add_int8_group(args, group, row + r, at, acc[r])
                                        : add_f32_group(args, group, row + r, at, acc[r]);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) ref::store(args, row + r, n, acc[r]);
}

template <ActForm form>
void multiply(const MatmulArgs& args) {
  const std::int64_t begin = args.panel_begin * kPanelStrips * kStrip;
  const std::int64_t end = args.panel_end * kPanelStrips * kStrip;
  for (std::int64_t n = begin; n < end && n < args.shape.n; ++n)
    for (std::int64_t row = 0; row < args.m; row += kRows)
      multiply_channel<form>(args, n, row, args.m - row < kRows ? args.m - row : kRows);
}

void quantize_row(const float* x, std::int64_t k, std::int64_t padded_k, std::int8_t* q,
                  float* scale, float* sum, std::int32_t* isum) {
  for (std::int64_t g = 0; g < padded_k / kActGroup; ++g) {
    const auto value = [&](int i) {
      const std::int64_t at = g * kActGroup + i;
      return at < k ? x[at] : 0.0f;
    };
    float top = 0.0f;
    for (int i = 0; i < kActGroup; ++i) top = std::fabs(value(i)) > top ? std::fabs(value(i)) : top;
    const bool tiny = !(top >= kTinyGroup);
    const float inverse = tiny ? 0.0f : 127.0f / top;
    std::int32_t sums[2] = {};
    for (int i = 0; i < kActGroup; ++i) {
      // The order of the comparisons sends NaN (of an infinite or NaN input) to -127.
      float y = value(i) * inverse;
      y = y > -127.0f ? y : -127.0f;
      y = y < 127.0f ? y : 127.0f;
      const int code = static_cast<int>(std::nearbyint(y));
      q[g * kActGroup + i] = static_cast<std::int8_t>(code);
      sums[i / 16] += code;
    }
    scale[g] = tiny ? 0.0f : top / 127.0f;
    sum[g] = scale[g] * static_cast<float>(sums[0] + sums[1]);
    isum[2 * g] = sums[0];
    isum[2 * g + 1] = sums[1];
  }
}

void round_row_bf16(const float* x, std::int64_t k, std::int64_t padded_k, float factor,
                    std::uint16_t* out) {
  for (std::int64_t i = 0; i < padded_k; ++i)
    out[i] = i < k ? f32_to_bf16(x[i] * factor) : std::uint16_t{0};
}

}  // namespace

void fill_matmul_ref(MatmulKernels* table) {
  for (int kind = 0; kind < kNumPackedKinds; ++kind) {
    const bool integer = is_integer_kind(static_cast<PackedKind>(kind));
    table->matmul[kind][static_cast<int>(ActForm::kF32)] = multiply<ActForm::kF32>;
    if (integer) table->matmul[kind][static_cast<int>(ActForm::kInt8)] = multiply<ActForm::kInt8>;
  }
  for (PackedKind kind : {PackedKind::kBF16, PackedKind::kF8x32, PackedKind::kF8x128})
    table->matmul[static_cast<int>(kind)][static_cast<int>(ActForm::kBF16)] =
        multiply<ActForm::kBF16>;
  table->quantize_row = quantize_row;
  table->round_row_bf16 = round_row_bf16;
}

}  // namespace quire
