// What instruction sets without 16-bit masked loads and without a bf16 dot product have alike
// (AVX2, NEON): partial halves by way of a small buffer, and two FMAs. Included by vec.h, after the
// wrapper.
#pragma once

namespace quire::QUIRE_ISA {

struct Halves {
  uint16_t v[16];
};
QUIRE_INLINE Halves copy_halves(const uint16_t* p, int n) {
  Halves h{};
  for (int i = 0; i < n; ++i) h.v[i] = p[i];
  return h;
}
QUIRE_INLINE F32 load_f16_n(const uint16_t* p, int n) { return load_f16(copy_halves(p, n).v); }
QUIRE_INLINE F32 load_bf16_n(const uint16_t* p, int n) { return load_bf16(copy_halves(p, n).v); }
QUIRE_INLINE void store_f16_n(uint16_t* p, F32 a, int n) {
  Halves h;
  store_f16(h.v, a);
  for (int i = 0; i < n; ++i) p[i] = h.v[i];
}
QUIRE_INLINE void store_bf16_n(uint16_t* p, F32 a, int n) {
  Halves h;
  store_bf16(h.v, a);
  for (int i = 0; i < n; ++i) p[i] = h.v[i];
}
#ifndef __AVX2__
QUIRE_INLINE void store_i8(int8_t* p, I32 a) {
  int32_t lanes[16];
  store_i32(lanes, a);
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(lanes[i]);
}
#endif
QUIRE_INLINE F32 dot_bf16(F32 acc, I32 w, I32 a) {
  const I32 high = set1_i32(static_cast<int32_t>(0xffff0000u));
  acc = fma(as_f32(shl<16>(a)), as_f32(shl<16>(w)), acc);
  return fma(as_f32(bit_and(a, high)), as_f32(bit_and(w, high)), acc);
}

}  // namespace quire::QUIRE_ISA
