// Matrix products with f32 or bf16 activations: the loops around float_tile.
//
// f32 weights, bf16 weights where pairs of bf16 are multiplied (else bf16_widened.h has them), and
// f16 or bf16 weights for few rows of f32 are read as they are packed.
// Everything else is widened to f32 (integer kinds: dequantized exactly) into a scratch of a few
// strips x a chunk of K, which serves a block of rows. Sums between chunks wait in a carry buffer,
// which changes no bit.
#pragma once

#include "kernels/cpu/tiles/float_tile.h"
#include "kernels/cpu/tiles/int_matmul.h"

namespace quire::QUIRE_ISA {

// Tiles by registers; see float_tile.h. ymm: 6 x 1 takes 12 sums, 2 weights, 1 broadcast.
inline constexpr int kFloatTileRows = 6;
inline constexpr int kFloatTileStrips = kVectorRegisters >= 32 ? 4 : 1;
inline constexpr int kFloatScratchStrips = kVectorRegisters >= 32 ? 4 : 2;
inline constexpr int64_t kFloatChunkK = 512 / kFloatScratchStrips;  // 32 KB of f32
#ifdef __AVX512BF16__
inline constexpr bool kDotsBf16 = true;
#else
inline constexpr bool kDotsBf16 = false;
#endif
inline constexpr int kBf16TileStrips = kVectorRegisters >= 32 ? 4 : 1;
inline constexpr int kBf16TileRows = kVectorRegisters >= 32 ? 6 : 4;
// Pairs of k that several tiles of rows read: 192 KB of a panel, so that with the activations it
// stays in L2.
inline constexpr int64_t kBf16ChunkUnits = 768;

// A tile function and the tile's width, chosen at run time by rows and strips.
template <class A>
using FloatTileFn = void (*)(const FloatSource&, const A* a, int64_t a_stride, int64_t units,
                             const TileOutput&);

template <PackedKind kind, int kRows, int kStrips>
void float_tile_call(const FloatSource& source, const float* a, int64_t a_stride, int64_t units,
                     const TileOutput& out) {
  float_tile<kind, kRows, kStrips>(source, a, a_stride, units, out);
}
template <int kRows, int kStrips>
void bf16_tile_call(const FloatSource& source, const uint16_t* a, int64_t a_stride, int64_t units,
                    const TileOutput& out) {
  bf16_tile<kRows, kStrips>(source, a, a_stride, units, out);
}

// Runs one block of rows over `strips` strips of `strip_bytes` each: wide tiles, then single
// strips.
template <class A>
QUIRE_INLINE void run_strips(FloatTileFn<A> wide, int64_t width, FloatTileFn<A> narrow,
                             FloatSource source, int64_t strip_bytes, int64_t strips, const A* a,
                             int64_t a_stride, int64_t units, TileOutput out) {
  while (strips > 0) {
    const int64_t by = strips >= width ? width : 1;
    (by == width ? wide : narrow)(source, a, a_stride, units, out);
    source.base += by * strip_bytes;
    source.ahead = {};  // the first pass asked for all strips
    out = strips_right(out, by);
    strips -= by;
  }
}

// ---- weights read as packed

template <PackedKind kind, int kMostRows, int kMost>
void float_panel(const MatmulArgs& args, const Panel& panel, int64_t units) {
  static constexpr FloatTileFn<float> kWide[6] = {
      float_tile_call<kind, 1, kMost>,
      float_tile_call<kind, 2, kMost>,
      float_tile_call<kind, 3, kMost>,
      float_tile_call<kind, 4, kMost>,
      float_tile_call < kind,
      kMostRows < 5 ? 1 : 5,
      kMost >
      , float_tile_call < kind, kMostRows < 6 ? 1 : 6, kMost > };
  static constexpr FloatTileFn<float> kNarrow[6] = {
      float_tile_call<kind, 1, 1>,
      float_tile_call<kind, 2, 1>,
      float_tile_call<kind, 3, 1>,
      float_tile_call<kind, 4, 1>,
      float_tile_call < kind,
      kMostRows < 5 ? 1 : 5,
      1 >
      , float_tile_call < kind, kMostRows < 6 ? 1 : 6, 1 > };
  constexpr int64_t kBytes = kFloatUnitBytes<kind>;
  alignas(64) float carry[kCarryStride];  // never used: all of K is one chunk
  for (int64_t row = 0, rows; row < args.m; row += rows) {
    rows = even_rows(args.m - row, kMostRows);
    run_strips(kWide[rows - 1], kMost, kNarrow[rows - 1], {panel.base, panel.strips * kBytes, {}},
               kBytes, panel.strips, static_cast<const float*>(args.a) + row * args.a_stride,
               args.a_stride, units, output_at(args, row, panel.column, carry, true, true));
  }
}

inline void bf16_matmul(const MatmulArgs& args) {
  constexpr int kMost = kBf16TileStrips;
  static constexpr FloatTileFn<uint16_t> kWide[6] = {bf16_tile_call<1, kMost>,
                                                     bf16_tile_call<2, kMost>,
                                                     bf16_tile_call<3, kMost>,
                                                     bf16_tile_call<4, kMost>,
                                                     bf16_tile_call < kBf16TileRows < 5 ? 1 : 5,
                                                     kMost >,
                                                     bf16_tile_call < kBf16TileRows < 6 ? 1 : 6,
                                                     kMost > };
  static constexpr FloatTileFn<uint16_t> kNarrow[6] = {bf16_tile_call<1, 1>,
                                                       bf16_tile_call<2, 1>,
                                                       bf16_tile_call<3, 1>,
                                                       bf16_tile_call<4, 1>,
                                                       bf16_tile_call < kBf16TileRows < 5 ? 1 : 5,
                                                       1 >,
                                                       bf16_tile_call < kBf16TileRows < 6 ? 1 : 6,
                                                       1 > };
  const int64_t units = (args.shape.k + 1) / 2;
  alignas(64) float carry[kRowBlock * kCarryStride];
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<64>(args, p, units);
    const int64_t unit_bytes = panel.strips * 64;
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      const int64_t tiles = (block + kBf16TileRows - 1) / kBf16TileRows;
      for (int64_t u = 0, count; u < units; u += count) {
        count = tiles == 1 ? units : even_rows(units - u, kBf16ChunkUnits);
        // What lies behind this chunk is the next one, of the next panel after the last.
        const uint8_t* chunk = panel.base + u * unit_bytes;
        for (int64_t r = 0, part = 0, rows; r < block; r += rows, ++part) {
          rows = even_rows(block - r, kBf16TileRows);
          FloatSource source{chunk, unit_bytes, {}};
          if (tiles > 1)
            source.ahead = fetch_part(chunk + count * unit_bytes, unit_bytes, part, tiles);
          run_strips(kWide[rows - 1], kMost, kNarrow[rows - 1], source, 64, panel.strips,
                     static_cast<const uint16_t*>(args.a) + (row + r) * args.a_stride + 2 * u,
                     args.a_stride, count,
                     output_at(args, row + r, panel.column, carry + r * kCarryStride, u == 0,
                               u + count == units));
        }
      }
    }
  }
}

// ---- weights widened into a scratch

// k [k0, k0 + count) of some strips as f32: [k / 2][strip][2][16].
template <PackedKind kind>
QUIRE_INLINE void widen(const Panel& panel, int64_t strip, int strips, int64_t k0, int64_t count,
                        float* out) {
  if constexpr (is_float8_kind(kind)) {
    constexpr int64_t kUnitK = kFloat8UnitK<kind>, kBytes = kFloat8UnitBytes<kind>;
    for (int64_t k = k0; k < k0 + count; k += kUnitK) {
      for (int s = 0; s < strips; ++s) {
        const uint8_t* unit = panel.base + (k / kUnitK * panel.strips + strip + s) * kBytes;
        const F32 scale = load(reinterpret_cast<const float*>(unit));
        float* to = out + ((k - k0) / 2 * kFloatScratchStrips + s) * 32;
        for (int i = 0; i < kUnitK / 2; ++i, to += kFloatScratchStrips * 32) {
          F32 even, odd;
          split_pairs(load_e4m3_pairs(unit + 64 + 32 * i), &even, &odd);
          store(to, mul(even, scale));
          store(to + 16, mul(odd, scale));
        }
      }
    }
  } else if constexpr (!is_float_kind<kind>) {
    using T = Traits<kind>;
    const PackedSource<kind> source{
        panel.base + strip * T::kUnitBytes, panel.strips * T::kUnitBytes, {}};
    for (int64_t g = 0; g < count / 32; ++g) {
      for (int s = 0; s < strips; ++s) {
        const PackedGroup<kind> group = source.at(k0 / 32 + g, s);
        alignas(64) uint8_t codes[8 * 64];
        QUIRE_UNROLL for (int j = 0; j < 8; ++j) store_u8(codes + 64 * j, group.quad(j));
        for (int part = 0; part < T::kParts; ++part) {
          const F32 scale = group.scale(part), minimum = T::kHasMin ? group.minimum(part) : zero();
          for (int k = part * (32 / T::kParts); k < (part + 1) * (32 / T::kParts); ++k) {
            // Byte k % 4 of each lane's quad.
            alignas(64) int32_t lanes[16];
            for (int l = 0; l < 16; ++l)
              lanes[l] = codes[k / 4 * 64 + l * 4 + k % 4] - T::kCodeZero;
            F32 w = mul(scale, to_f32(load_i32(lanes)));
            if constexpr (T::kHasMin) w = add(w, minimum);
            store(out + (((32 * g + k) / 2 * kFloatScratchStrips + s) * 2 + k % 2) * 16, w);
          }
        }
      }
    }
  } else {
    const int64_t panel_bytes = panel.units * panel.strips * kFloatUnitBytes<kind>;
    for (int64_t u = 0; u < count / 2; ++u) {
      for (int s = 0; s < strips; ++s) {
        const uint8_t* unit =
            panel.base + ((k0 / 2 + u) * panel.strips + strip + s) * kFloatUnitBytes<kind>;
        F32 even, odd;
        load_pair<kind>(unit, &even, &odd);
        __builtin_prefetch(unit + panel_bytes, 0, 2);  // the next panel's
        store(out + (u * kFloatScratchStrips + s) * 32, even);
        store(out + (u * kFloatScratchStrips + s) * 32 + 16, odd);
      }
    }
  }
}

// A block of rows over the scratch.
inline void scratch_rows(const float* scratch, int64_t strips, int64_t rows, const float* a,
                         int64_t a_stride, int64_t units, const TileOutput& out) {
  constexpr PackedKind kF32 = PackedKind::kF32;
  constexpr int kMost = kFloatTileStrips;
  static constexpr FloatTileFn<float> kWide[kFloatTileRows] = {
      float_tile_call<kF32, 1, kMost>, float_tile_call<kF32, 2, kMost>,
      float_tile_call<kF32, 3, kMost>, float_tile_call<kF32, 4, kMost>,
      float_tile_call<kF32, 5, kMost>, float_tile_call<kF32, 6, kMost>};
  static constexpr FloatTileFn<float> kNarrow[kFloatTileRows] = {
      float_tile_call<kF32, 1, 1>, float_tile_call<kF32, 2, 1>, float_tile_call<kF32, 3, 1>,
      float_tile_call<kF32, 4, 1>, float_tile_call<kF32, 5, 1>, float_tile_call<kF32, 6, 1>};
  run_strips(kWide[rows - 1], kMost, kNarrow[rows - 1],
             {reinterpret_cast<const uint8_t*>(scratch), kFloatScratchStrips * 128, {}}, 128,
             strips, a, a_stride, units, out);
}

template <PackedKind kind, int kUnitBytes, int kUnitK>
QUIRE_INLINE void float_widened(const MatmulArgs& args) {
  alignas(64) float scratch[kFloatChunkK * kFloatScratchStrips * 16];
  alignas(64) float carry[kRowBlock * kCarryStride];
  const int64_t units = (args.shape.k + kUnitK - 1) / kUnitK, padded_k = units * kUnitK;
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<kUnitBytes>(args, p, units);
    for (int64_t row = 0, block; row < args.m; row += block) {
      block = even_rows(args.m - row, kRowBlock);
      for (int64_t k = 0; k < padded_k; k += kFloatChunkK) {
        const int64_t count = smaller(kFloatChunkK, padded_k - k);
        for (int64_t s = 0; s < panel.strips; s += kFloatScratchStrips) {
          const int64_t strips = smaller(kFloatScratchStrips, panel.strips - s);
          widen<kind>(panel, s, static_cast<int>(strips), k, count, scratch);
          for (int64_t r = 0, tile; r < block; r += tile) {
            tile = even_rows(block - r, kFloatTileRows);
            scratch_rows(
                scratch, strips, tile,
                static_cast<const float*>(args.a) + (row + r) * args.a_stride + k, args.a_stride,
                count / 2,
                output_at(args, row + r, panel.column + 16 * s, carry + r * kCarryStride + 16 * s,
                          k == 0, k + count == padded_k));
          }
        }
      }
    }
  }
}

template <PackedKind kind>
void float_matmul(const MatmulArgs& args) {
  if constexpr (is_float_kind<kind>) {
    constexpr int kBytes = kFloatUnitBytes<kind>;
    const int64_t units = (args.shape.k + 1) / 2;
    if (kind == PackedKind::kF32 || args.m <= 4) {
      constexpr bool kOnlyFew = kind != PackedKind::kF32;
      constexpr int kMostRows = kOnlyFew ? 4 : kFloatTileRows;
      constexpr int kMost = kVectorRegisters < 32 ? 1 : kOnlyFew ? 4 : kFloatTileStrips;
      for (int64_t p = args.panel_begin; p < args.panel_end; ++p)
        float_panel<kind, kMostRows, kMost>(args, panel_at<kBytes>(args, p, units), units);
      return;
    }
    float_widened<kind, kBytes, 2>(args);
  } else if constexpr (is_float8_kind(kind)) {
    float_widened<kind, kFloat8UnitBytes<kind>, kFloat8UnitK<kind>>(args);
  } else {
    float_widened<kind, Traits<kind>::kUnitBytes, 32 * Traits<kind>::kGroups>(args);
  }
}

}  // namespace quire::QUIRE_ISA
