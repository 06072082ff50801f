// What this machine can do at most: products per second of each dot instruction, of one thread and of
// all together (two hyperthreads of a core share its units), and the read bandwidth of all together.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "dot_probes.h"
#include "kernels/cpu/matmul_kernels.h"

namespace quire::bench {

// 10^9 multiply-adds per second; 0 where the machine lacks the instruction.
struct DotPeaks {
  std::array<double, kNumDots> gmacs{};
  double operator[](Dot dot) const { return gmacs[index_of(dot)]; }
};
struct Peaks : DotPeaks {     // of one thread
  DotPeaks all;               // of `threads` at once
  double read_gb_per_s = 0;   // all `threads`, a buffer of read_bytes each pass
};
// read_bytes: as many as what is measured reads, since a last-level cache may hold more than 256 MiB.
Peaks measure_peaks(int threads, std::size_t read_bytes = 256u << 20);

// Of the best dot instruction that a table of kernels has for activations of that form; 0: none is
// known ("ref").
double peak_of_table(std::string_view table, ActForm form, const DotPeaks& peaks);

}  // namespace quire::bench
