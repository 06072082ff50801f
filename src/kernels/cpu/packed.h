// The packed layout of weights, the same on every ISA.
//
// 16 output channels form a strip (one per vector lane). K is cut into units; a unit holds
// everything that unit_k() consecutive k need, for the 16 lanes of one strip. Four strips form a
// panel: their units are interleaved, so that a 64-wide tile reads one stream. The last panel
// has 1..4 strips; N is padded to 16 and K to unit_k() with zeros.
//   unit (u, strip s of panel p) at:  panel_base(p) + (u * strips(p) + s) * unit_bytes
//   panel_base(p) = 4 * p * units * unit_bytes
//
// kind    unit_k  unit content, l = lane 0..15 (integer kinds: w = scale * (q - zero) + min)
// kF32       2    f32 [2 k][16]
// kF16       2    f16 [2 k][16]
// kBF16      2    bf16 [16][2 k], as vdpbf16ps and tdpbf16ps read it
// kQ8       32    u8 [8 quads][16][4 k] = q + 128; then f16 scale[16]                    zero 128
// kQ4Sym    32    u8 [4][16][4]: low nibble quad j, high nibble quad j+4; f16 scale[16]  zero 8
// kQ4Min    32    same nibbles; f16 scale[16], f16 min[16]                               zero 0
// kQ5Sym    32    nibbles; plane u8 [16][4]: bit j is bit 4 of quad j; f16 scale[16]     zero 16
// kQ5Min    32    nibbles; plane; f16 scale[16], f16 min[16]                             zero 0
// kQ4K     256    f16 d[16], dmin[16]; 8 x { nibbles; u8 sc[16], u8 m[16] }
//                 scale d*sc, min -(dmin*m)
// kQ5K     256    f16 d[16], dmin[16]; 8 x { nibbles; plane; u8 sc[16], u8 m[16] }
// kQ6K     256    f16 d[16]; 8 x { nibbles; u8 plane [2][16][4]: bits 2(j%4).. of plane j/4
//                 are bits 4-5 of quad j; i8 sc[2][16], one per 16 k }   scale d*sc, zero 32
// kQ2K     256    f16 d[16], dmin[16]; u32 sc[2][16], m[2][16]: bits 4(s%8).. of word s/8 are the
//                 scale and the minimum of k 16 s .. 16 s + 15; 8 x { u8 pairs [2][16][4]: bits
//                 2(j%4).. of plane j/4 are quad j }     scale d*sc, min -(dmin*m), zero 0
// kQ3K     256    f16 d[16]; u32 low[2][16]: bits 4(s%8).. of word s/8 are bits 0-3, u32 high[16]:
//                 bits 2s.. are bits 4-5 of the scale of k 16 s .. 16 s + 15; 8 x { pairs; plane
//                 u8 [16][4]: bit j is bit 2 of quad j }       scale d*(sc-32), zero 4
// kMx4      32    nibbles: numbers of E2M1 values, doubled; u8 e[16]
//                 scale 2^(e-128), 0 for e below 2 (no weight that counts)
// kIq4Nl    32    nibbles: numbers of IQ4's sixteen levels; f16 scale[16]
// kIq4Xs   256    f16 d[16]; 8 x { nibbles as in kIq4Nl; i8 sc[16] }             scale d*sc
// kG4xU      U    f16 scale[16]; u8 zero[16], at most 16; U/32 x nibbles         zero zero[l]
// kG8xU      U    f16 scale[16]; u8 zero[16]; U/32 x u8 [8 quads][16][4 k] = q
//                 zero 128, min scale*(128-zero)
// kF8xU      U    f32 scale[16]; u8 [U / 2][16][2 k] = float8_e4m3; a float kind: bf16 activations
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace quire {

enum class PackedKind : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8,
  kQ4Sym,
  kQ4Min,
  kQ5Sym,
  kQ5Min,
  kQ4K,
  kQ5K,
  kQ6K,
  kQ2K,
  kQ3K,
  kMx4,
  kIq4Nl,
  kIq4Xs,
  kG4x32,
  kG4x64,
  kG4x128,
  kG4x256,
  kG8x32,
  kG8x64,
  kG8x128,
  kG8x256,
  kF8x32,
  kF8x128,
};
inline constexpr int kNumPackedKinds = 26;
inline constexpr int kStrip = 16;       // output channels of a strip
inline constexpr int kPanelStrips = 4;  // strips of a full panel
inline constexpr int kActGroup = 32;    // k per activation scale (int8 activations)

// Weights in blocks of unit_k, as they are stored.
inline constexpr bool is_block_kind(PackedKind kind) { return kind >= PackedKind::kQ8; }
inline constexpr bool is_float8_kind(PackedKind kind) { return kind >= PackedKind::kF8x32; }
// Multiplied with int8 activations.
inline constexpr bool is_integer_kind(PackedKind kind) {
  return is_block_kind(kind) && !is_float8_kind(kind);
}
inline constexpr bool is_g4_kind(PackedKind kind) {
  return kind >= PackedKind::kG4x32 && kind <= PackedKind::kG4x256;
}
inline constexpr bool is_g8_kind(PackedKind kind) {
  return kind >= PackedKind::kG8x32 && kind <= PackedKind::kG8x256;
}

struct PackedKindInfo {
  const char* name;
  std::int32_t unit_k;
  std::int32_t unit_bytes;
};
const PackedKindInfo& packed_kind_info(PackedKind kind);

// Geometry of one packed matrix [n outputs, k inputs].
struct PackedShape {
  PackedKind kind = PackedKind::kF32;
  std::int64_t n = 0, k = 0;
  std::int64_t units() const {
    const std::int64_t uk = packed_kind_info(kind).unit_k;
    return (k + uk - 1) / uk;
  }
  std::int64_t padded_k() const { return units() * packed_kind_info(kind).unit_k; }
  std::int64_t strips() const { return (n + kStrip - 1) / kStrip; }
  std::int64_t panels() const { return (strips() + kPanelStrips - 1) / kPanelStrips; }
  std::int64_t bytes() const { return strips() * units() * packed_kind_info(kind).unit_bytes; }
  std::int64_t panel_offset(std::int64_t panel) const {
    return kPanelStrips * panel * units() * packed_kind_info(kind).unit_bytes;
  }
};

// The kind that a weight of this stored type is packed into, under a compute dtype (the table in
// docs/architecture.md, "Numbers"). Only types that is_packable() names.
PackedKind packed_kind_for(DType stored, ComputeDType compute);
bool is_packable(DType stored);

// Packs panels [panel_begin, panel_end) of a row-major matrix [n, k] of type `stored` into `out`
// (start of the whole packed matrix). Row r of the matrix is at rows + r * row_bytes. Pure, so
// panels go in parallel.
void pack_panels(const PackedShape& shape, DType stored, const std::byte* rows,
                 std::int64_t row_bytes, std::int64_t panel_begin, std::int64_t panel_end,
                 std::byte* out);

}  // namespace quire
