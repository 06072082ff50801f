// What this machine can do at most: products per second of each dot instruction, of one thread and of
// all together (two hyperthreads of a core share its units), and the read bandwidth of all together.
#pragma once

#include <cstddef>

namespace quire::bench {

// 10^9 multiply-adds per second; 0 where the machine lacks the instruction.
struct DotPeaks {
  double fma = 0, vpdpbusd = 0, vdpbf16ps = 0, amx_int8 = 0, amx_bf16 = 0;
};
struct Peaks : DotPeaks {     // of one thread
  DotPeaks all;               // of `threads` at once
  double read_gb_per_s = 0;   // all `threads`, a buffer of read_bytes each pass
};
// read_bytes: as many as what is measured reads, since a last-level cache may hold more than 256 MiB.
Peaks measure_peaks(int threads, std::size_t read_bytes = 256u << 20);

}  // namespace quire::bench
