// Loops that the compiler must unroll completely, so that arrays of vectors become registers.
#pragma once

#include "kernels/cpu/tiles/vec.h"

#if defined(QUIRE_VEC_SCALAR)
#define QUIRE_UNROLL
#define QUIRE_UNROLL16
#else
#define QUIRE_UNROLL _Pragma("GCC unroll 8")
#define QUIRE_UNROLL16 _Pragma("GCC unroll 16")
#endif
