// float8_e4m3 from operations that every implementation of the vector wrapper has. Included by
// vec.h, after the wrapper.
#pragma once

namespace quire::QUIRE_ISA {

// The f32 value of the code in each lane: exponent and mantissa at their places, counted from
// 2^-127 in place of 2^-7; codes without an exponent are a multiple of 2^-9.
QUIRE_INLINE I32 widen_e4m3(I32 code) {
  const I32 magnitude = bit_and(code, set1_i32(0x7f));
  const I32 normal = add(shl<20>(magnitude), set1_i32(120 << 23));
  const F32 number = to_f32(magnitude);
  const F32 value = select_lt(number, set1(8.0f), mul(number, set1(0x1p-9f)), as_f32(normal));
  return bit_or(as_i32(value), shl<24>(bit_and(code, set1_i32(0x80))));
}
QUIRE_INLINE I32 load_e4m3_pairs(const uint8_t* p) {
  const I32 both = as_i32(load_bf16(reinterpret_cast<const uint16_t*>(p)));  // in the high half
  const I32 even = widen_e4m3(bit_and(shr<16>(both), set1_i32(0xff)));
  const I32 odd = widen_e4m3(shr<24>(both));
  return bit_or(odd, shr<16>(even));  // a code's f32 is a bf16: its low half is 0
}

}  // namespace quire::QUIRE_ISA
