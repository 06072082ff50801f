// What this machine can do at most: products per second of each dot instruction, of one thread and of
// all together (two hyperthreads of a core share its units), and the read bandwidth of all together.
#pragma once

namespace quire::bench {

// 10^9 multiply-adds per second; 0 where the machine lacks the instruction.
struct DotPeaks {
  double fma = 0, vpdpbusd = 0, vdpbf16ps = 0, amx_int8 = 0, amx_bf16 = 0;
};
struct Peaks : DotPeaks {     // of one thread
  DotPeaks all;               // of `threads` at once
  double read_gb_per_s = 0;   // all `threads`, a buffer of 256 MiB each pass
};
Peaks measure_peaks(int threads);

}  // namespace quire::bench
