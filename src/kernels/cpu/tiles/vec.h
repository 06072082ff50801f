// Sixteen f32/i32 lanes (or 64 bytes) as one value, with one implementation per instruction set.
//
// A translation unit defines QUIRE_ISA (the name of its own namespace, e.g. `vnni`) before it
// includes this header; everything here and in the tile headers then lives in quire::QUIRE_ISA, so
// that the linker can never take a function compiled for a newer CPU in place of another. The
// implementation follows the compiler's flags: AVX-512, else AVX2, NEON with dotprod, else plain
// arrays; QUIRE_VEC_SCALAR forces the plain arrays, which are the emulation that every machine can
// test. No inline standard code is included here.
//
// All operations give equal bits on every implementation (IEEE single operations, fma fused,
// conversions round to nearest even, NaN payloads apart). `_n` forms touch the first n lanes
// (n from 0 to 16) of memory only.
//
// F32, 16 floats:
//  - load(p)  load_n(p, n): the rest 0  store(p, v)  store_n(p, v, n)  set1(x)  zero()
//  - add  sub  mul  div  sqrt  fma(a, b, c) = a*b+c  max  min: b when either is NaN
//  - load_f16(p)  load_bf16(p)  store_f16  store_bf16, each with _n;  from_u8(p)  from_i8(p)
//  - load_e4m3_pairs(p): an I32, in each lane the bf16 values of two float8_e4m3 side by side; the
//    two NaN codes as numbers
//  - sum(v): lane i + i+8, then i + i+4, then i + i+2, then the two;  hmax(v): the same tree
//  - select_lt(a, b, x, y): a < b ? x : y per lane
//  - dot_bf16(acc, w, a), w and a as I32: two bf16 per lane; one vdpbf16ps where the ISA has it,
//    else two f32 FMAs, even k first
//
// I32, 16 integers:
//  - load_i32  store_i32  set1_i32  add  sub  bit_and  bit_or  shl<n>  shr<n> (logical)  hsum(i)
//  - store_codes(p, i): lanes in +-127 as bytes; their sum
//  - to_f32(i)  round_i32(f): nearest even  as_i32(f)  as_f32(i): the same bits
//
// U8, 64 bytes:
//  - load_u8(p)  store_u8  set1_u8  bit_and  bit_or  shl32(v, n)  shr32(v, n): on 32-bit lanes
//  - quad(p): the 4 bytes at p in every lane;  lookup(table, v): table[v] per byte, v below 16
//  - dot_small(acc, w, a): acc + w . a, w unsigned of at most 7 bits, a signed in +-127
//  - dot_byte(acc, w, a): acc + (w - 128 + kByteZero) . a, w any unsigned byte
#pragma once

#include <stdint.h>

#ifndef QUIRE_ISA
#error "define QUIRE_ISA (the namespace of this instruction set) before including tiles/vec.h"
#endif

#if (defined(__AVX2__) || defined(__ARM_FEATURE_DOTPROD)) && !defined(QUIRE_VEC_SCALAR)
#define QUIRE_INLINE inline __attribute__((always_inline))
#else
#define QUIRE_INLINE inline  // forced inlining of plain arrays would take minutes to compile
#endif

namespace quire::QUIRE_ISA {
#if defined(__AVX512VNNI__) && !defined(QUIRE_VEC_SCALAR)
inline constexpr bool kHasVnni = true;
#else
inline constexpr bool kHasVnni = false;
#endif
// Whether vector operations beside the dot products cost nothing much: AMD's processors have two
// more ports for them, Intel's, for which a file defines QUIRE_SHARED_PORTS, have not (512 bits
// wide; ports 0 and 5 do everything).
#ifndef QUIRE_SHARED_PORTS
inline constexpr bool kDirectIsFree = kHasVnni;
#else
inline constexpr bool kDirectIsFree = false;
#endif
}  // namespace quire::QUIRE_ISA

#if defined(__AVX512F__) && !defined(QUIRE_VEC_SCALAR)
#include "kernels/cpu/tiles/vec_avx512.h"
#elif defined(__AVX2__) && !defined(QUIRE_VEC_SCALAR)
#include "kernels/cpu/tiles/vec_avx2.h"
#elif defined(__ARM_FEATURE_DOTPROD) && !defined(QUIRE_VEC_SCALAR)
#include "kernels/cpu/tiles/vec_neon.h"
#else
#include "kernels/cpu/tiles/vec_scalar.h"
#endif
#ifdef QUIRE_VEC_HALVES
#include "kernels/cpu/tiles/vec_halves.h"
#endif
#if !defined(__AVX512F__) || defined(QUIRE_VEC_SCALAR)
#include "kernels/cpu/tiles/vec_float8.h"
namespace quire::QUIRE_ISA {
QUIRE_INLINE int32_t store_codes(int8_t* p, I32 a) {
  store_i8(p, a);
  return hsum(a);
}
}  // namespace quire::QUIRE_ISA
#endif
