// Loops that the compiler must unroll completely, so that arrays of vectors become registers; and
// numbers of rows as constants of the compiler, for the same.
#pragma once

#include "kernels/cpu/tiles/vec.h"

#if defined(QUIRE_VEC_SCALAR)
#define QUIRE_UNROLL
#define QUIRE_UNROLL16
#else
#define QUIRE_UNROLL _Pragma("GCC unroll 8")
#define QUIRE_UNROLL16 _Pragma("GCC unroll 16")
#endif

namespace quire::QUIRE_ISA {

// Packed weights that a tile fetches into L2 for later, some cache lines with each step of its own.
struct FetchAhead {
  const uint8_t* base;
  int64_t stride;  // bytes from step to step
  int lines;
  QUIRE_INLINE void fetch(int64_t step) const {
    for (int i = 0; i < lines; ++i) __builtin_prefetch(base + step * stride + 64 * i, 0, 2);
  }
};
// The share of part `part` of `parts` that fetch steps of `step_bytes` each, from `base` on.
QUIRE_INLINE FetchAhead fetch_part(const uint8_t* base, int64_t step_bytes, int64_t part,
                                   int64_t parts) {
  const int64_t lines = (step_bytes + 63) / 64, share = (lines + parts - 1) / parts;
  const int64_t left = lines - part * share;
  return {base + part * share * 64, step_bytes,
          static_cast<int>(left < 0       ? 0
                           : left < share ? left
                                          : share)};
}

// Values that were loaded before are loaded again, not kept in registers that others need.
QUIRE_INLINE void forget_loads() { asm volatile("" ::: "memory"); }

// fn.template operator()<n>() for n = count, which lies in [kLeast, kMost].
template <int kLeast, int kMost, class Fn>
QUIRE_INLINE void with_rows(int64_t count, const Fn& fn) {
  if constexpr (kLeast < kMost) {
    if (count != kLeast) return with_rows<kLeast + 1, kMost>(count, fn);
  }
  fn.template operator()<kLeast>();
}

}  // namespace quire::QUIRE_ISA
