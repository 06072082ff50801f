// What this machine can do at most: products per second of each dot instruction (one thread), and the
// read bandwidth of all threads together.
#pragma once

namespace quire::bench {

struct Peaks {
  // 10^9 multiply-adds per second; 0 where the machine lacks the instruction.
  double fma = 0, vpdpbusd = 0, vdpbf16ps = 0, amx_int8 = 0;
  double read_gb_per_s = 0;   // all `threads`, a buffer of 256 MiB each pass
};
Peaks measure_peaks(int threads);

}  // namespace quire::bench
