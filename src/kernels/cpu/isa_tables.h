// What each ISA folder offers. A fill function overwrites the entries of the table that its ISA
// does better; select.cpp calls them from the lowest level to the highest, so a table falls back to
// the next lower one.
#pragma once

#include "kernels/cpu/matmul_kernels.h"

namespace quire {

void fill_matmul_ref(MatmulKernels* table);
// bf16 activations of integer and float8 kinds, as tables with integers_as_bf16 have them: for
// tests.
void fill_matmul_ref_tiles(MatmulKernels* table);
void fill_matmul_emulated(MatmulKernels* table);  // the tiles over plain arrays: for tests
// Those of tiles for instruction sets that multiply pairs of bf16.
void fill_matmul_emulated_pairs(MatmulKernels* table);
void fill_matmul_avx2(MatmulKernels* table);
void fill_matmul_avx_vnni(MatmulKernels* table);
void fill_matmul_avx512(MatmulKernels* table);
void fill_matmul_vnni(MatmulKernels* table);
void fill_matmul_vnni_shared(MatmulKernels* table);  // the same bits, for Intel's ports
void fill_matmul_bf16(MatmulKernels* table);
void fill_matmul_amx(MatmulKernels* table);
void fill_matmul_neon(MatmulKernels* table);
void fill_matmul_i8mm(MatmulKernels* table);

}  // namespace quire
