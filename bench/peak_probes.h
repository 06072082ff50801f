// What one thread of this machine can do at most: products per second of each dot instruction, read
// bandwidth.
#pragma once

namespace quire::bench {

struct Peaks {
  // 10^9 multiply-adds per second; 0 where the machine lacks the instruction.
  double fma = 0, vpdpbusd = 0, vdpbf16ps = 0, amx_int8 = 0;
  double read_gb_per_s = 0;
};
Peaks measure_peaks();

}  // namespace quire::bench
