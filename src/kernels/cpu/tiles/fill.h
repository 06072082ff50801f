// The entries of a kernel table, from the tiles of this instruction set.
#pragma once

#include "kernels/cpu/tiles/activations.h"
#include "kernels/cpu/tiles/bf16_widened.h"
#include "kernels/cpu/tiles/float8_matmul.h"
#include "kernels/cpu/tiles/int_matmul.h"

namespace quire::QUIRE_ISA {

template <PackedKind kind>
QUIRE_INLINE void fill_integer(MatmulKernels* table) {
  table->matmul[static_cast<int>(kind)][static_cast<int>(ActForm::kInt8)] = int_matmul<kind>;
}
inline void fill_integers(MatmulKernels* table) {
  fill_integer<PackedKind::kQ8>(table);
  fill_integer<PackedKind::kQ4Sym>(table);
  fill_integer<PackedKind::kQ4Min>(table);
  fill_integer<PackedKind::kQ5Sym>(table);
  fill_integer<PackedKind::kQ5Min>(table);
  fill_integer<PackedKind::kQ2K>(table);
  fill_integer<PackedKind::kQ3K>(table);
  fill_integer<PackedKind::kQ4K>(table);
  fill_integer<PackedKind::kQ5K>(table);
  fill_integer<PackedKind::kQ6K>(table);
  fill_integer<PackedKind::kMx4>(table);
  fill_integer<PackedKind::kIq4Nl>(table);
  fill_integer<PackedKind::kIq4Xs>(table);
  fill_integer<PackedKind::kG4x32>(table);
  fill_integer<PackedKind::kG4x64>(table);
  fill_integer<PackedKind::kG4x128>(table);
  fill_integer<PackedKind::kG4x256>(table);
  fill_integer<PackedKind::kG8x32>(table);
  fill_integer<PackedKind::kG8x64>(table);
  fill_integer<PackedKind::kG8x128>(table);
  fill_integer<PackedKind::kG8x256>(table);
}
template <PackedKind kind>
QUIRE_INLINE void fill_float(MatmulKernels* table) {
  table->matmul[static_cast<int>(kind)][static_cast<int>(ActForm::kF32)] = float_matmul<kind>;
}
inline void fill_floats(MatmulKernels* table) {
  fill_float<PackedKind::kF32>(table);
  fill_float<PackedKind::kF16>(table);
  fill_float<PackedKind::kBF16>(table);
  fill_float<PackedKind::kQ8>(table);
  fill_float<PackedKind::kQ4Sym>(table);
  fill_float<PackedKind::kQ4Min>(table);
  fill_float<PackedKind::kQ5Sym>(table);
  fill_float<PackedKind::kQ5Min>(table);
  fill_float<PackedKind::kQ2K>(table);
  fill_float<PackedKind::kQ3K>(table);
  fill_float<PackedKind::kQ4K>(table);
  fill_float<PackedKind::kQ5K>(table);
  fill_float<PackedKind::kQ6K>(table);
  fill_float<PackedKind::kMx4>(table);
  fill_float<PackedKind::kIq4Nl>(table);
  fill_float<PackedKind::kIq4Xs>(table);
  fill_float<PackedKind::kG4x32>(table);
  fill_float<PackedKind::kG4x64>(table);
  fill_float<PackedKind::kG4x128>(table);
  fill_float<PackedKind::kG4x256>(table);
  fill_float<PackedKind::kG8x32>(table);
  fill_float<PackedKind::kG8x64>(table);
  fill_float<PackedKind::kG8x128>(table);
  fill_float<PackedKind::kG8x256>(table);
  fill_float<PackedKind::kF8x32>(table);
  fill_float<PackedKind::kF8x128>(table);
}
inline void fill_bf16(MatmulKernels* table) {
  const auto fill = [&](PackedKind kind, MatmulFn fn) {
    table->matmul[static_cast<int>(kind)][static_cast<int>(ActForm::kBF16)] = fn;
  };
  fill(PackedKind::kBF16, kDotsBf16 ? bf16_matmul : bf16_widened);
  fill(PackedKind::kF8x32, float8_matmul<PackedKind::kF8x32>);
  fill(PackedKind::kF8x128, float8_matmul<PackedKind::kF8x128>);
}
inline void fill_activations(MatmulKernels* table) {
  table->quantize_row = quantize_row;
  table->round_row_bf16 = round_row_bf16;
}

}  // namespace quire::QUIRE_ISA
