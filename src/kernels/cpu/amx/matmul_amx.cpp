// Matrix products with AMX tiles: bf16 activations, for every number of rows. Integer and float8
// weights become bf16 on the way (kernels/cpu/amx/unpack.h).
#define QUIRE_ISA amx
#include "kernels/cpu/amx/matmul.h"
#include "kernels/cpu/isa_tables.h"

namespace quire {
namespace {

template <PackedKind kind>
void fill(MatmulKernels* table) {
  table->matmul[static_cast<int>(kind)][static_cast<int>(ActForm::kBF16)] = amx::amx_matmul<kind>;
}

}  // namespace

void fill_matmul_amx(MatmulKernels* table) {
  fill<PackedKind::kBF16>(table);
  fill<PackedKind::kQ8>(table);
  fill<PackedKind::kQ4Sym>(table);
  fill<PackedKind::kQ4Min>(table);
  fill<PackedKind::kQ5Sym>(table);
  fill<PackedKind::kQ5Min>(table);
  fill<PackedKind::kQ2K>(table);
  fill<PackedKind::kQ3K>(table);
  fill<PackedKind::kQ4K>(table);
  fill<PackedKind::kQ5K>(table);
  fill<PackedKind::kQ6K>(table);
  fill<PackedKind::kMx4>(table);
  fill<PackedKind::kIq4Nl>(table);
  fill<PackedKind::kIq4Xs>(table);
  fill<PackedKind::kG4x32>(table);
  fill<PackedKind::kG4x64>(table);
  fill<PackedKind::kG4x128>(table);
  fill<PackedKind::kG4x256>(table);
  fill<PackedKind::kG8x32>(table);
  fill<PackedKind::kG8x64>(table);
  fill<PackedKind::kG8x128>(table);
  fill<PackedKind::kG8x256>(table);
  fill<PackedKind::kF8x32>(table);
  fill<PackedKind::kF8x128>(table);
  table->integers_as_bf16 = true;
  table->bf16_factor = amx::kActivationFactor;
  table->row_block = amx::kAmxBlockRows;
}

}  // namespace quire
