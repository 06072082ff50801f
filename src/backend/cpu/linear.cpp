// Matrix products of the CPU backend: per step activations in the kernel's form, then the panels of
// all segments spread over the threads. linear_pack.cpp makes the weights.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "base/trace.h"

namespace quire {
namespace {

// A panel that two threads share is cut between tiles of rows.
constexpr std::int64_t kRowStep = 4;
// Of a piece: a million multiply-adds (a panel has 64 columns) are some 50 microseconds of a single
// row, 5 of many.
constexpr std::int64_t kMinPieceWork = (1 << 20) / 64;
constexpr std::int64_t kMostPieces = 8;
// Activation elements that the caller converts by itself before it wakes the others: cheaper than a
// barrier.
constexpr std::int64_t kMaxSerialActivations = 8192;

// Where a cell lies: the first row of its block and the rows that the block has, its panel, its row
// in the block.
struct CellPlace {
  std::int64_t block, rows, panel, row;
};

// Elements between rows whose columns have been ordered.
std::int64_t ordered_stride(const PackedLinear& weights) {
  return std::max(weights.inputs, weights.padded_k[index_of(ActForm::kF32)]);
}

}  // namespace

void CpuBackend::reserve(std::int64_t max_rows, std::int64_t max_inputs) {
  max_rows_ = std::max(max_rows_, max_rows);
  row_blocks_.reserve(static_cast<std::size_t>(max_rows_));
  span_ends_.reserve(static_cast<std::size_t>(max_rows_));
  reserve_activations(max_inputs);
}

void CpuBackend::reserve_activations(std::int64_t max_inputs) {
  constexpr std::int64_t kLargestUnitK = 256;
  max_padded_ =
      std::max(max_padded_, (max_inputs + kLargestUnitK - 1) / kLargestUnitK * kLargestUnitK);
  const auto elements = static_cast<std::size_t>(max_rows_ * max_padded_);
  if (elements <= act_q_.size()) return;
  const auto groups = elements / kActGroup;
  // Address space only; what is never used is never committed.
  act_f32_ = Buffer(elements * sizeof(float));
  act_bf16_ = Buffer(elements * sizeof(std::uint16_t));
  if (kernels_.mm.integers_as_bf16) act_bf16_next_ = Buffer(elements * sizeof(std::uint16_t));
  act_q_ = Buffer(elements);
  act_scale_ = Buffer(groups * sizeof(float));
  act_sum_ = Buffer(groups * sizeof(float));
  act_isum_ = Buffer(2 * groups * sizeof(std::int32_t));
}

// A line is one head of one row (a row, where there are no heads): its activations are `inputs`
// numbers, and lines of a row follow each other in the buffers.
struct CpuBackend::LinearCall {
  const PackedLinear& weights;
  const float* x;
  float* y;
  std::int64_t rows;
  HeadStrides strides;
  bool accumulate = false;
  // Not null: x is scratch, for what this makes of `raw` (no heads then).
  const ActivationArgs* activation = nullptr;
  const float* raw = nullptr;
  float* scratch = nullptr;

  std::int64_t lines() const { return rows * weights.heads; }
  const float* line(std::int64_t i) const {
    return x + i / weights.heads * strides.x_row + i % weights.heads * strides.x_head;
  }
  float* scratch_line(std::int64_t i) const { return scratch + i * strides.x_row; }
  // Work is counted in cells of one row and one panel: row blocks, in them panels, in them rows.
  std::int64_t cells() const { return rows * weights.panels; }
  // Of a cell below cells(), in blocks of up to `most` rows.
  CellPlace place(std::int64_t cell, std::int64_t most) const {
    const std::int64_t block = cell / weights.panels / most * most;
    const std::int64_t in_block = std::min(most, rows - block);
    const std::int64_t inside = cell - block * weights.panels;
    return {block, in_block, inside / in_block, inside % in_block};
  }
};

// Rows [first_row, first_row + rows) of panels [begin, end), counted over all segments.
struct CpuBackend::LinearPart {
  std::int64_t first_row, rows, begin, end;
};

void CpuBackend::order_lines(const LinearCall& call, std::int64_t begin, std::int64_t end) {
  const std::vector<std::int32_t>& order = call.weights.column_order;
  const std::int64_t inputs = call.weights.inputs, stride = ordered_stride(call.weights);
  for (std::int64_t i = begin; i < end; ++i) {
    const float* from = call.line(i);
    float* const line = act_f32_.as<float>() + i * stride;
    for (std::int64_t c = 0; c < inputs; ++c) line[c] = from[order[static_cast<std::size_t>(c)]];
    std::fill(line + inputs, line + stride, 0.0f);
  }
}

// Makes line i of the raw one, in place `to`.
const float* CpuBackend::activate_line(const LinearCall& call, std::int64_t i, float* to) const {
  const std::int64_t inputs = call.weights.inputs,
                     width = (call.activation->gated ? 2 : 1) * inputs;
  activate_row(*call.activation, call.raw + i * width, inputs, to);
  return to;
}

void CpuBackend::prepare_lines(const LinearCall& call, std::int64_t begin, std::int64_t end) {
  const TraceSpan span(call.activation != nullptr ? TraceKind::kActivate : TraceKind::kDoor,
                       end - begin);
  const PackedLinear& weights = call.weights;
  const std::int64_t inputs = weights.inputs;
  const bool ordered = !weights.column_order.empty();
  const std::int64_t k_f32 = weights.padded_k[index_of(ActForm::kF32)];
  const std::int64_t k_int8 = weights.padded_k[index_of(ActForm::kInt8)];
  const std::int64_t k_bf16 = weights.padded_k[index_of(ActForm::kBF16)];
  const std::int64_t groups = k_int8 / kActGroup;
  // Activated lines that are read once take turns in the first one's place, which stays in the
  // first-level cache.
  const bool in_turns = call.activation != nullptr && !ordered && k_f32 == 0;
  for (std::int64_t i = begin; call.activation != nullptr && !in_turns && i < end; ++i)
    activate_line(call, i, call.scratch_line(i));
  if (ordered) order_lines(call, begin, end);
  for (std::int64_t i = begin; k_int8 + k_bf16 > 0 && i < end; ++i) {
    const float* const line = in_turns  ? activate_line(call, i, call.scratch_line(begin))
                              : ordered ? act_f32_.as<float>() + i * ordered_stride(weights)
                                        : call.line(i);
    if (k_int8 > 0) {
      kernels_.mm.quantize_row(line, inputs, k_int8, act_q_.as<std::int8_t>() + i * k_int8,
                               act_scale_.as<float>() + i * groups,
                               act_sum_.as<float>() + i * groups,
                               act_isum_.as<std::int32_t>() + i * 2 * groups);
    }
    if (k_bf16 > 0)
      kernels_.mm.round_row_bf16(line, inputs, k_bf16, weights.bf16_factor,
                                 act_bf16_.as<std::uint16_t>() + i * k_bf16);
  }
  if (k_f32 > inputs && !ordered) {  // else the kernel reads x itself, or what was ordered
    for (std::int64_t i = begin; i < end; ++i) {
      float* const line = act_f32_.as<float>() + i * k_f32;
      std::copy(call.line(i), call.line(i) + inputs, line);
      std::fill(line + inputs, line + k_f32, 0.0f);
    }
  }
}

void CpuBackend::run_part(const LinearCall& call, const LinearPart& part) {
  const bool ordered = !call.weights.column_order.empty();
  for (const PackedLinear::Segment& segment : call.weights.segments) {
    const std::int64_t begin = std::max<std::int64_t>(part.begin - segment.first_panel, 0);
    const std::int64_t end = std::min(part.end - segment.first_panel, segment.shape.panels());
    if (begin >= end) continue;
    const std::int64_t k = call.weights.padded_k[index_of(segment.form)], groups = k / kActGroup;
    const std::int64_t heads = call.weights.heads, row = part.first_row;
    const std::int64_t head = heads > 1 ? &segment - call.weights.segments.data() : 0;
    const std::int64_t line = row * heads + head;
    MatmulArgs args;
    args.shape = segment.shape;
    args.weights = segment.weights.data();
    args.a_stride = heads * k;
    switch (segment.form) {
      case ActForm::kInt8:
        args.a = act_q_.as<std::int8_t>() + line * k;
        args.a_scale = act_scale_.as<float>() + line * groups;
        args.a_sum = act_sum_.as<float>() + line * groups;
        args.a_isum = act_isum_.as<std::int32_t>() + line * 2 * groups;
        args.scale_stride = heads * groups;
        break;
      case ActForm::kBF16:
        args.a = act_bf16_.as<std::uint16_t>() + line * k;
        args.unscale = 1.0f / call.weights.bf16_factor;
        break;
      case ActForm::kF32:
        if (k == call.weights.inputs && !ordered) {  // x itself
          args.a_stride = call.strides.x_row;
          args.a = call.line(line);
        } else {
          args.a = act_f32_.as<float>() + line * k;
        }
        break;
    }
    args.m = part.rows;
    args.panel_begin = begin;
    args.panel_end = end;
    args.bias = call.weights.bias.size() > 0 ? call.weights.bias.as<float>() + segment.first_output
                                             : nullptr;
    args.accumulate = call.accumulate;
    args.c = call.y + row * call.strides.y_row +
             (heads > 1 ? head * call.strides.y_head : segment.first_output);
    args.ldc = call.strides.y_row;
    kernels_.mm.matmul[static_cast<std::size_t>(segment.shape.kind)][index_of(segment.form)](args);
  }
}

// Whole panels in one part as far as they go; a panel that the range cuts is a part of its own.
void CpuBackend::run_cells(const LinearCall& call, Range cells) {
  for (std::int64_t cell = cells.begin; cell < cells.end;) {
    const CellPlace at = call.place(cell, kernels_.mm.row_block);
    const std::int64_t left = cells.end - cell;
    LinearPart part{at.block + at.row, std::min(at.rows - at.row, left), at.panel, at.panel + 1};
    if (part.rows == at.rows) part.end = std::min(call.weights.panels, at.panel + left / at.rows);
    run_part(call, part);
    cell += part.rows * (part.end - part.begin);
  }
}

// Equal numbers of cells for all threads, cut between tiles of rows.
Range CpuBackend::cells_of(const LinearCall& call, int thread) const {
  const Range even = split_range(call.cells(), thread, pool_.size());
  const auto cut = [&](std::int64_t cell) {
    if (cell == call.cells()) return cell;
    const CellPlace at = call.place(cell, kernels_.mm.row_block);
    return at.rows < 2 * kRowStep ? cell : cell - at.row % kRowStep;
  };
  return {cut(even.begin), cut(even.end)};
}

// Begins to share the cells out; gives the pieces of each thread's share: small enough that the
// last ones end together, not so small that taking them or beginning a panel anew is felt.
int CpuBackend::start_shares(const LinearCall& call) {
  shares_.start();
  const std::int64_t work = call.cells() * call.weights.inputs / pool_.size();
  return static_cast<int>(std::clamp<std::int64_t>(work / kMinPieceWork, 1, kMostPieces));
}

// Pieces of a share are cut between panels.
Range CpuBackend::piece_of(const LinearCall& call, Range share, int piece, int pieces) const {
  const Range even = split_range(share.end - share.begin, piece, pieces);
  const auto cut = [&](std::int64_t offset) {
    const std::int64_t cell = share.begin + offset;
    if (cell == share.begin || cell == share.end) return cell;
    return std::max(share.begin, cell - call.place(cell, kernels_.mm.row_block).row);
  };
  return {cut(even.begin), cut(even.end)};
}

void CpuBackend::run_share(const LinearCall& call, int thread, int pieces) {
  shares_.take(thread, pieces, [&](int owner, int piece) {
    run_cells(call, piece_of(call, cells_of(call, owner), piece, pieces));
  });
}

void CpuBackend::check_reserved(const PackedLinear& weights, std::int64_t rows) const {
  QUIRE_CHECK(rows <= max_rows_ && weights.heads * weights.inputs <= max_padded_,
              "a step of {} rows of {} inputs; reserved: {} of {}", rows,
              weights.heads * weights.inputs, max_rows_, max_padded_);
}

void CpuBackend::run_linear(LinearCall& call) {
  const PackedLinear& weights = call.weights;
  if (call.rows == 0) return;
  check_reserved(weights, call.rows);
  const std::int64_t activations = call.lines() * weights.inputs;
  const std::int64_t door_work = call.activation != nullptr ? 2 * activations : activations;
  const bool serial_door = door_work <= kMaxSerialActivations;
  if (serial_door) prepare_lines(call, 0, call.lines());
  if (serial_door && activations * weights.outputs < kMinParallelWork)
    return run_cells(call, {0, call.cells()});
  const int pieces = start_shares(call);
  pool_.run([&](int thread) {
    if (!serial_door) {
      const Range mine = split_range(call.lines(), thread, pool_.size());
      prepare_lines(call, mine.begin, mine.end);
      pool_.barrier();
    }
    run_share(call, thread, pieces);
  });
}

void CpuBackend::linear(const float* x, std::int64_t rows, const Linear& weights, float* y,
                        Epilogue epilogue, std::int64_t y_stride, std::int64_t x_stride) {
  const auto& packed = static_cast<const PackedLinear&>(weights);
  const TraceSpan span(TraceKind::kLinear, rows, packed.inputs, packed.outputs);
  QUIRE_CHECK(packed.heads == 1, "weights of {} heads: linear_heads takes them", packed.heads);
  LinearCall call{packed, x, y, rows, {}};
  call.strides.x_row = x_stride > 0 ? x_stride : packed.inputs;
  call.strides.y_row = y_stride > 0 ? y_stride : packed.outputs;
  call.accumulate = epilogue == Epilogue::kAdd;
  run_linear(call);
}

void CpuBackend::linear_activated(const ActivationArgs& args, const float* x, std::int64_t rows,
                                  const Linear& weights, float* scratch, float* y,
                                  Epilogue epilogue) {
  const auto& packed = static_cast<const PackedLinear&>(weights);
  const TraceSpan span(TraceKind::kLinear, rows, packed.inputs, packed.outputs);
  QUIRE_CHECK(packed.heads == 1, "weights of {} heads: linear_heads takes them", packed.heads);
  LinearCall call{packed, scratch, y, rows, {}};
  call.strides.x_row = packed.inputs;
  call.strides.y_row = packed.outputs;
  call.accumulate = epilogue == Epilogue::kAdd;
  call.activation = &args;
  call.raw = x;
  call.scratch = scratch;
  run_linear(call);
}

void CpuBackend::multiply_prepared(const PackedLinear& weights, std::int64_t rows, float* y,
                                   Epilogue epilogue) {
  const TraceSpan span(TraceKind::kLinear, rows, weights.inputs, weights.outputs);
  LinearCall call{weights, nullptr, y, rows, {}};
  call.strides.y_row = weights.outputs;
  call.accumulate = epilogue == Epilogue::kAdd;
  const int pieces = start_shares(call);
  pool_.run([&](int thread) { run_share(call, thread, pieces); });
}

// For linear_experts.cpp: rows of a product whose rows follow each other in x and y.
void CpuBackend::prepare_rows(const PackedLinear& weights, const float* x, Range rows) {
  LinearCall call{weights, x, nullptr, rows.end, {}};
  call.strides.x_row = weights.inputs;
  prepare_lines(call, rows.begin, rows.end);
}
void CpuBackend::run_rows(const PackedLinear& weights, const float* x, Range rows, Range panels,
                          float* y) {
  LinearCall call{weights, x, y, rows.end, {}};
  call.strides.x_row = weights.inputs;
  call.strides.y_row = weights.outputs;
  for (std::int64_t row = rows.begin; row < rows.end; row += kernels_.mm.row_block)
    run_part(call,
             {row, std::min(kernels_.mm.row_block, rows.end - row), panels.begin, panels.end});
}

void CpuBackend::linear_heads(const float* x, std::int64_t rows, const Linear& weights,
                              const HeadStrides& strides, float* y) {
  const TraceSpan span(TraceKind::kLinearHeads, rows, weights.inputs, weights.outputs);
  LinearCall call{static_cast<const PackedLinear&>(weights), x, y, rows, strides};
  run_linear(call);
}

}  // namespace quire
