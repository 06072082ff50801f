// Matrix products with AMX tiles: integer kinds for twelve rows and more, bf16 for every number of
// rows.
#define QUIRE_ISA amx
#include "kernels/cpu/amx/bf16_amx.h"
#include "kernels/cpu/amx/int_amx.h"
#include "kernels/cpu/isa_tables.h"

namespace quire {
namespace {

template <PackedKind kind>
void fill(MatmulKernels* table) {
  table->matmul[static_cast<int>(kind)][static_cast<int>(ActForm::kInt8)] = amx::amx_matmul<kind>;
}

}  // namespace

void fill_matmul_amx(MatmulKernels* table) {
  fill<PackedKind::kQ8>(table);
  fill<PackedKind::kQ4Sym>(table);
  fill<PackedKind::kQ4Min>(table);
  fill<PackedKind::kQ5Sym>(table);
  fill<PackedKind::kQ5Min>(table);
  fill<PackedKind::kQ4K>(table);
  fill<PackedKind::kQ5K>(table);
  fill<PackedKind::kQ6K>(table);
  fill<PackedKind::kMx4>(table);
  fill<PackedKind::kG4x32>(table);
  fill<PackedKind::kG4x64>(table);
  fill<PackedKind::kG4x128>(table);
  fill<PackedKind::kG4x256>(table);
  fill<PackedKind::kG8x32>(table);
  fill<PackedKind::kG8x64>(table);
  fill<PackedKind::kG8x128>(table);
  fill<PackedKind::kG8x256>(table);
  table->matmul[static_cast<int>(PackedKind::kBF16)][static_cast<int>(ActForm::kBF16)] =
      amx::amx_bf16_matmul;
}

}  // namespace quire
