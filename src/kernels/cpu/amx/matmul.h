// Matrix products on the tile unit: the loops around TileShape, for every kind that has bf16
// activations there. A row's bits are the same in all of them: steps of 32 k in ascending order,
// and sums that wait between chunks of K are copied as they are.
//
//   few rows (up to 64)   32 at a time over all of K of a panel; weights stream by. Kinds that are
//                         not bf16 are unpacked a step ahead into a ring in L1, tile by tile
//                         between the products, so that the vector ports and the tile unit work at
//                         once (for 33 to 64 rows twice, which costs as much as a scratch does)
//   more rows             a panel's chunk of up to 512 k is unpacked once (64 KB) for up to 512
//   rows.
//                         32 rows of the chunk stay in L1 while the panel's four strips, loaded so
//                         that they do not displace them, pass: out of L2 come 30 bytes a cycle,
//                         and operands of all steps would be 64. A block's activations stay in L2:
//                         all of K, or a chunk while eight panels pass
#pragma once

#include "kernels/cpu/amx/unpack.h"

namespace quire::QUIRE_ISA {

inline constexpr int64_t kAmxBlockRows = 512, kAmxBlockPanels = 8;
inline constexpr int64_t kAmxChunkSteps = 16;
inline constexpr int64_t kAmxResident = 512 << 10;  // activations, 1 MB
template <PackedKind kind>
inline constexpr int64_t kAmxFewRows = kind == PackedKind::kBF16 ? kTallRows : 64;

// What every product of one call shares.
struct AmxCall {
  const MatmulArgs& args;
  int64_t configured = 0;  // rows that the tiles are configured for

  explicit AmxCall(const MatmulArgs& a) : args(a) {}
  ~AmxCall() { _tile_release(); }
  AmxCall(const AmxCall&) = delete;
  AmxCall& operator=(const AmxCall&) = delete;

  QUIRE_INLINE void configure(int64_t rows) {
    if (rows != configured) configure_tiles(rows);
    configured = rows;
  }
  QUIRE_INLINE ActivationRows rows_at(int64_t row, int64_t step) const {
    const auto* a = static_cast<const uint16_t*>(args.a) + row * args.a_stride + step * kStepK;
    return {reinterpret_cast<const uint8_t*>(a), 2 * args.a_stride};
  }
};

// The last k of bf16 weights where they are no multiple of 32: copies filled up with zeros.
struct BF16Tail {
  alignas(64) uint8_t weights[kPanelStrips][kTileBytes];
  alignas(64) uint16_t rows[kTallRows][kStepK];
  int64_t k = 0;  // 0: there is none

  QUIRE_INLINE void fill_weights(const WeightTiles& from, int64_t step, int64_t strips) {
    if (k == 0) return;
    const int64_t pairs = (k + 1) / 2;
    for (int64_t s = 0; s < strips; ++s) {
      for (int64_t i = 0; i < 16; ++i) {
        const __m512i pair = i < pairs ? _mm512_loadu_si512(from.at(step, s) + i * from.row_bytes)
                                       : _mm512_setzero_si512();
        _mm512_store_si512(weights[s] + 64 * i, pair);
      }
    }
  }
  QUIRE_INLINE void fill_rows(const ActivationRows& from, int64_t step, int64_t count) {
    if (k == 0) return;
    const auto lanes = static_cast<__mmask32>((1ull << (k + k % 2)) - 1);
    for (int64_t r = 0; r < count; ++r) {
      const __m512i row = _mm512_maskz_loadu_epi16(lanes, from.at(step) + r * from.row_bytes);
      _mm512_store_si512(rows[r], row);
    }
  }
  template <class Shape>
  QUIRE_INLINE void multiply(int64_t strip) const {
    if (k == 0) return;
    tile_fence();
    const WeightTiles w{weights[strip], 0, kTileBytes, 64};
    Shape::step(w, {reinterpret_cast<const uint8_t*>(rows[0]), 2 * kStepK}, 0);
  }
};

template <class Shape>
void tiles_product(const WeightTiles& w, const ActivationRows& a, int64_t steps,
                   const BF16Tail* tail, int64_t strip, int64_t rows, float factor,
                   const FetchAhead& ahead, const TileOutput& out) {
  tile_fence();
  Shape::start(out);
  for (int64_t step = 0; step < steps; ++step) {
    ahead.fetch(step);
    Shape::step(w, a, step);
  }
  if (tail != nullptr) tail->multiply<Shape>(strip);
  Shape::finish(out, rows, factor);
  tile_fence();
}

// Rows [row, row + rows), at most 32, of a panel's chunk.
QUIRE_INLINE void tiles_rows(AmxCall& call, const Panel& panel, WeightTiles w, int64_t row,
                             int64_t rows, int64_t begin, int64_t steps, const BF16Tail* tail,
                             float* carry, bool first, bool last, float factor,
                             FetchAhead ahead = {}) {
  call.configure(rows);
  const ActivationRows a = call.rows_at(row, begin);
  const bool tall = rows > kTileRows;
  for (int64_t s = 0, by; s < panel.strips; s += by, w = w.right(by)) {
    by = smaller(tall ? 2 : 4, panel.strips - s);
    const TileOutput out = output_at(call.args, row, panel.column + 16 * s,
                                     carry == nullptr ? nullptr : carry + 16 * s, first, last);
    const auto run = [&]<bool kTall, int kStrips>() {
      tiles_product<TileShape<kTall, kStrips>>(w, a, steps, tail, s, rows, factor, ahead, out);
      ahead.base += 64 * ahead.lines;
    };
    if (tall)
      by == 2 ? run.template operator()<true, 2>() : run.template operator()<true, 1>();
    else
      with_rows<1, 4>(by, [&]<int kStrips>() { run.template operator()<false, kStrips>(); });
  }
}

// ---- kinds that are unpacked

// Few rows: all of K of some strips of a panel.
template <PackedKind kind, class Shape, int kStrips>
void amx_stream(const PackedPanel<kind>& panel, const ActivationRows& a, int64_t steps,
                int64_t rows, float factor, const TileOutput& out) {
  constexpr int kAhead = 1;  // steps
  alignas(64) uint8_t ring[kAhead + 1][kStrips][kTileBytes];
  for (int i = 0; i < kAhead && i < steps; ++i)
    for (int s = 0; s < kStrips; ++s) panel.unpack(i, s, ring[i][s]);
  tile_fence();
  Shape::zero();
  int64_t at = 0, to = kAhead;
  for (int64_t step = 0; step < steps; ++step) {
    Shape::load_rows(a, step);
    each_of<kStrips>([&]<int s>() {
      if (step + kAhead < steps) panel.unpack(step + kAhead, s, ring[to][s]);
      tile_fence();
      Shape::template multiply<s>(ring[at][s], 64);
    });
    at = at == kAhead ? 0 : at + 1;
    to = to == kAhead ? 0 : to + 1;
  }
  Shape::finish(out, rows, factor);
  tile_fence();
}

// Rows [row, row + rows), at most 32, of one panel.
template <PackedKind kind>
QUIRE_INLINE void amx_stream_panel(AmxCall& call, const Panel& panel, int64_t steps, int64_t row,
                                   int64_t rows) {
  call.configure(rows);
  const ActivationRows a = call.rows_at(row, 0);
  const bool tall = rows > kTileRows;
  PackedPanel<kind> packed{panel.base, panel.strips * PackedPanel<kind>::kUnitBytes};
  for (int64_t s = 0, by; s < panel.strips; s += by, packed = packed.right(by)) {
    by = smaller(tall ? 2 : 4, panel.strips - s);
    const TileOutput out = output_at(call.args, row, panel.column + 16 * s, nullptr, true, true);
    const auto run = [&]<bool kTall, int kStrips>() {
      amx_stream<kind, TileShape<kTall, kStrips>, kStrips>(packed, a, steps, rows,
                                                           kWeightUnscale * call.args.unscale, out);
    };
    if (tall)
      by == 2 ? run.template operator()<true, 2>() : run.template operator()<true, 1>();
    else
      with_rows<1, 4>(by, [&]<int kStrips>() { run.template operator()<false, kStrips>(); });
  }
}
// bf16 of one panel: tiles as they are packed.
inline void amx_plain_panel(AmxCall& call, const Panel& panel, int64_t rows, BF16Tail* tail) {
  const int64_t row_bytes = panel.strips * 64, steps = call.args.shape.k / kStepK;
  const WeightTiles w{panel.base, 16 * row_bytes, 64, row_bytes};
  tail->fill_weights(w, steps, panel.strips);
  tiles_rows(call, panel, w, 0, rows, 0, steps, tail, nullptr, true, true, call.args.unscale);
}
inline void amx_few_plain_rows(const MatmulArgs& args) {
  AmxCall call(args);
  BF16Tail tail;
  tail.k = args.shape.k % kStepK;
  tail.fill_rows(call.rows_at(0, 0), args.shape.k / kStepK, args.m);
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p)
    amx_plain_panel(call, panel_at<64>(args, p, (args.shape.k + 1) / 2), args.m, &tail);
}
template <PackedKind kind>
void amx_few_rows(const MatmulArgs& args) {
  if constexpr (kind == PackedKind::kBF16) return amx_few_plain_rows(args);
  using Packed = PackedPanel<kind>;
  const int64_t units = (args.shape.k + Packed::kUnitK - 1) / Packed::kUnitK;
  AmxCall call(args);
  for (int64_t p = args.panel_begin; p < args.panel_end; ++p) {
    const Panel panel = panel_at<Packed::kUnitBytes>(args, p, units);
    for (int64_t row = 0, rows; row < args.m; row += rows) {
      rows = smaller(kTallRows, args.m - row);
      amx_stream_panel<kind>(call, panel, units * Packed::kUnitSteps, row, rows);
    }
  }
}

// ---- more rows

// A block of rows: [row, row + rows), panels [first, end).
template <PackedKind kind>
struct AmxBlock {
  static constexpr bool kPlain = kind == PackedKind::kBF16;  // tiles as they are packed
  using Packed = PackedPanel<kind>;
  AmxCall& call;
  int64_t row, rows, units;
  uint8_t* scratch;  // a panel's chunk: [step][strip][kTileBytes]
  float* carry;      // [panel of the group][rows][kCarryStride]
  BF16Tail* tail;    // for kBF16

  int64_t steps() const { return kPlain ? call.args.shape.k / kStepK : units * Packed::kUnitSteps; }
  WeightTiles tiles(const Panel& panel, int64_t begin, int64_t count) {
    if constexpr (kPlain) {
      const int64_t row_bytes = panel.strips * 64;
      const WeightTiles w{panel.base + begin * 16 * row_bytes, 16 * row_bytes, 64, row_bytes};
      if (begin + count == steps()) tail->fill_weights(w, count, panel.strips);
      return w;
    } else {
      const Packed packed{panel.base, panel.strips * Packed::kUnitBytes};
      for (int64_t i = 0; i < count; ++i)
        for (int64_t s = 0; s < panel.strips; ++s)
          packed.unpack(begin + i, s, scratch + (i * panel.strips + s) * kTileBytes);
      return {scratch, panel.strips * kTileBytes, kTileBytes, 64};
    }
  }
  // Steps [begin, begin + count) of panel p.
  void chunk(int64_t p, int64_t begin, int64_t count, float* sums) {
    const bool last = begin + count == steps();
    const Panel panel = panel_at<Packed::kUnitBytes>(call.args, p, units);
    const WeightTiles w = tiles(panel, begin, count);
    const int64_t pieces = (panel.strips + 1) / 2;
    const int64_t parts = (rows + kTallRows - 1) / kTallRows * pieces;
    for (int64_t r = 0, part = 0, most; r < rows; r += most, part += pieces) {
      most = smaller(kTallRows, rows - r);
      FetchAhead ahead{};
      if constexpr (kPlain) {  // what lies behind the chunk: the next one, or the next panel's
        ahead = fetch_part(w.at(count, 0), w.step_bytes, part, parts);
        if (last) tail->fill_rows(call.rows_at(row + r, begin), count, most);
      }
      tiles_rows(call, panel, w, row + r, most, begin, count, kPlain && last ? tail : nullptr,
                 sums + r * kCarryStride, begin == 0, last,
                 (kPlain ? 1.0f : kWeightUnscale) * call.args.unscale, ahead);
    }
  }
  void panels(int64_t first, int64_t end) {
    const int64_t all = steps();
    const int64_t chunks = all == 0 ? 1 : (all + kAmxChunkSteps - 1) / kAmxChunkSteps;
    const int64_t most = (all + chunks - 1) / chunks;
    for (int64_t begin = 0, i = 0; i < chunks; begin += most, ++i)
      for (int64_t p = first; p < end; ++p)
        chunk(p, begin, smaller(most, all - begin), carry + (p - first) * rows * kCarryStride);
  }
};

template <PackedKind kind>
void amx_matmul(const MatmulArgs& args) {
  if (args.m <= kAmxFewRows<kind>) return amx_few_rows<kind>(args);
  using Packed = PackedPanel<kind>;
  alignas(64) uint8_t scratch[kAmxChunkSteps * kPanelStrips * kTileBytes];
  alignas(64) float carry[kAmxBlockPanels * kAmxBlockRows * kCarryStride];
  AmxCall call(args);
  BF16Tail tail;
  AmxBlock<kind> block{call,    0,     0,    (args.shape.k + Packed::kUnitK - 1) / Packed::kUnitK,
                       scratch, carry, &tail};
  tail.k = args.shape.k % kStepK;
  // Where all of K stays in the cache, so do the sums of one panel better than those of eight.
  const bool all_k = smaller(args.m, kAmxBlockRows) * args.shape.k <= kAmxResident;
  const int64_t group = all_k ? 1 : kAmxBlockPanels;
  for (; block.row < args.m; block.row += block.rows) {
    block.rows = smaller(kAmxBlockRows, args.m - block.row);
    for (int64_t p = args.panel_begin; p < args.panel_end; p += group)
      block.panels(p, smaller(p + group, args.panel_end));
  }
}

}  // namespace quire::QUIRE_ISA
