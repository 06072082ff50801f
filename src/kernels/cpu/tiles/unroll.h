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

// fn.template operator()<n>() for n = count, which lies in [kLeast, kMost].
template <int kLeast, int kMost, class Fn>
QUIRE_INLINE void with_rows(int64_t count, const Fn& fn) {
  if constexpr (kLeast < kMost) {
    if (count != kLeast) return with_rows<kLeast + 1, kMost>(count, fn);
  }
  fn.template operator()<kLeast>();
}

}  // namespace quire::QUIRE_ISA
