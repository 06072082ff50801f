// Matrix products of the CPU backend: packing at load, then per step activations in the kernel's
// form and the panels of all segments spread over the threads.
#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "base/trace.h"
#include "tensor/dequantize.h"

namespace quire {
namespace {

// Rows of one kernel call: the activations of a block stay in the second-level cache while panels
// pass by.
constexpr std::int64_t kMaxRowBlock = 192;
// A panel that two threads share is cut between tiles of rows.
constexpr std::int64_t kRowStep = 4;
// Activation elements that the caller converts by itself before it wakes the others: cheaper than a
// barrier.
constexpr std::int64_t kMaxSerialActivations = 8192;

std::size_t index_of(ActForm form) { return static_cast<std::size_t>(form); }

Status check_stack(std::span<const TensorView> weights, std::span<const TensorView> biases) {
  if (weights.empty())
    return make_error(ErrorCode::kInternal, "a linear layer needs at least one matrix");
  if (!biases.empty() && biases.size() != weights.size()) {
    return make_error(ErrorCode::kInternal, "{} matrices with {} biases", weights.size(),
                      biases.size());
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const TensorView& w = weights[i];
    if (w.shape.rank() != 2 || w.columns() != weights[0].columns()) {
      return make_error(ErrorCode::kBadFile,
                        "a weight of shape {} cannot be stacked on one of shape {}",
                        w.shape.to_string(), weights[0].shape.to_string());
    }
    if (!is_dequantizable(w.dtype)) {
      return make_error(
          ErrorCode::kUnsupported,
          "weights of type {} are not supported; convert the model to one of F32, F16, BF16, Q8_0, "
          "Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, MXFP4",
          dtype_name(w.dtype));
    }
    if (biases.empty() || biases[i].empty()) continue;
    if (biases[i].shape.elements() != w.shape[0] || !is_dequantizable(biases[i].dtype)) {
      return make_error(
          ErrorCode::kBadFile, "a bias of shape {} and type {} does not fit a weight of shape {}",
          biases[i].shape.to_string(), dtype_name(biases[i].dtype), w.shape.to_string());
    }
  }
  return {};
}

// The order of the columns of a stack: the first that a matrix has.
std::vector<std::int32_t> common_order(std::span<const TensorView> weights) {
  for (const TensorView& w : weights) {
    if (w.column_order != nullptr) return {w.column_order, w.column_order + w.columns()};
  }
  return {};
}

// The matrix with its columns in this order (empty: as they lie): itself where they are, else a
// copy in *storage, of plain numbers as they are, of others as f32.
TensorView with_order(const TensorView& w, const std::vector<std::int32_t>& order,
                      Buffer* storage) {
  const std::int32_t* own = w.column_order;
  if (order.empty() || (own != nullptr && std::equal(order.begin(), order.end(), own))) return w;
  const bool as_is = own == nullptr && !is_quantized(w.dtype);
  TensorView copy{nullptr, as_is ? w.dtype : DType::kF32, w.shape};
  *storage = Buffer(static_cast<std::size_t>(copy.bytes()));
  copy.data = storage->data();
  const std::size_t columns = order.size(), size = as_is ? w.row_bytes() / columns : sizeof(float);
  std::vector<float> stored(columns), values(columns);
  for (std::int64_t r = 0; r < w.rows(); ++r) {
    const std::byte* from = w.row(r);
    std::byte* to = storage->data() + r * copy.row_bytes();
    if (!as_is) {
      dequantize_row(w.dtype, from, w.columns(), stored.data());
      for (std::size_t c = 0; c < columns; ++c)
        values[own == nullptr ? c : static_cast<std::size_t>(own[c])] = stored[c];
      from = reinterpret_cast<const std::byte*>(values.data());
    }
    for (std::size_t c = 0; c < columns; ++c)
      std::memcpy(to + c * size, from + static_cast<std::size_t>(order[c]) * size, size);
  }
  return copy;
}

// Elements between rows whose columns have been ordered.
std::int64_t ordered_stride(const PackedLinear& weights) {
  return std::max(weights.inputs, weights.padded_k[index_of(ActForm::kF32)]);
}

}  // namespace

Result<std::unique_ptr<Linear>> CpuBackend::pack_linear(std::span<const TensorView> weights,
                                                        std::span<const TensorView> biases) {
  QUIRE_TRY(check_stack(weights, biases));
  auto packed = std::make_unique<PackedLinear>();
  packed->inputs = weights[0].columns();
  packed->column_order = common_order(weights);
  reserve_activations(packed->inputs);
  for (const TensorView& source : weights) {
    Buffer reordered;
    const TensorView w = with_order(source, packed->column_order, &reordered);
    PackedLinear::Segment& segment = packed->segments.emplace_back();
    segment.shape = {packed_kind_for(w.dtype, dtype_), w.shape[0], w.columns()};
    segment.form = act_form_for(segment.shape.kind, dtype_);
    segment.first_output = packed->outputs;
    segment.first_panel = packed->panels;
    segment.weights = Buffer(static_cast<std::size_t>(segment.shape.bytes()));
    packed->outputs += segment.shape.n;
    packed->panels += segment.shape.panels();
    packed->packed_bytes += segment.shape.bytes();
    std::int64_t& padded = packed->padded_k[index_of(segment.form)];
    padded = std::max(padded, segment.shape.padded_k());
    QUIRE_CHECK(
        kernels_.mm.matmul[static_cast<std::size_t>(segment.shape.kind)][index_of(segment.form)] !=
            nullptr,
        "kernels {} lack a product for weights packed as {}", kernels_.name,
        packed_kind_info(segment.shape.kind).name);
    pool_.run([&](int thread) {
      const Range panels = split_range(segment.shape.panels(), thread, pool_.size());
      pack_panels(segment.shape, w.dtype, w.data, w.row_bytes(), panels.begin, panels.end,
                  segment.weights.data());
    });
  }
  const bool any_bias =
      std::any_of(biases.begin(), biases.end(), [](const TensorView& b) { return !b.empty(); });
  if (any_bias) {
    packed->bias = Buffer(static_cast<std::size_t>(packed->outputs) * sizeof(float));
    packed->packed_bytes += static_cast<std::int64_t>(packed->bias.size());
    for (std::size_t i = 0; i < biases.size(); ++i) {
      if (biases[i].empty()) continue;
      const PackedLinear::Segment& segment = packed->segments[i];
      dequantize_row(biases[i].dtype, biases[i].data, segment.shape.n,
                     packed->bias.as<float>() + segment.first_output);
    }
  }
  return packed;
}

Result<std::unique_ptr<Linear>> CpuBackend::pack_heads(std::span<const TensorView> weights) {
  for (const TensorView& w : weights) {
    if (w.shape != weights[0].shape || w.dtype != weights[0].dtype)
      return make_error(ErrorCode::kInternal, "heads of shapes {} and {}",
                        weights[0].shape.to_string(), w.shape.to_string());
  }
  QUIRE_ASSIGN(std::unique_ptr<Linear> linear, pack_linear(weights, {}));
  auto& packed = static_cast<PackedLinear&>(*linear);
  packed.heads = static_cast<std::int64_t>(packed.segments.size());
  packed.outputs /= packed.heads;
  reserve_activations(packed.heads * packed.segments[0].shape.padded_k());
  return linear;
}

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

  std::int64_t lines() const { return rows * weights.heads; }
  const float* line(std::int64_t i) const {
    return x + i / weights.heads * strides.x_row + i % weights.heads * strides.x_head;
  }
  // Work is counted in cells of one row and one panel: row blocks, in them panels, in them rows.
  std::int64_t cells() const { return rows * weights.panels; }
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

void CpuBackend::prepare_lines(const LinearCall& call, std::int64_t begin, std::int64_t end) {
  const TraceSpan span(TraceKind::kDoor, end - begin);
  const PackedLinear& weights = call.weights;
  const std::int64_t inputs = weights.inputs;
  const bool ordered = !weights.column_order.empty();
  if (ordered) order_lines(call, begin, end);
  const auto source = [&](std::int64_t i) {
    return ordered ? act_f32_.as<float>() + i * ordered_stride(weights) : call.line(i);
  };
  const MatmulKernels& mm = kernels_.mm;
  if (const std::int64_t k = weights.padded_k[index_of(ActForm::kInt8)]) {
    const std::int64_t groups = k / kActGroup;
    for (std::int64_t i = begin; i < end; ++i) {
      mm.quantize_row(source(i), inputs, k, act_q_.as<std::int8_t>() + i * k,
                      act_scale_.as<float>() + i * groups, act_sum_.as<float>() + i * groups,
                      act_isum_.as<std::int32_t>() + i * 2 * groups);
    }
  }
  if (const std::int64_t k = weights.padded_k[index_of(ActForm::kBF16)]) {
    for (std::int64_t i = begin; i < end; ++i)
      mm.round_row_bf16(source(i), inputs, k, act_bf16_.as<std::uint16_t>() + i * k);
  }
  const std::int64_t k = weights.padded_k[index_of(ActForm::kF32)];
  if (k > inputs && !ordered) {  // else the kernel reads x itself, or what was ordered
    for (std::int64_t i = begin; i < end; ++i) {
      float* const line = act_f32_.as<float>() + i * k;
      std::copy(call.line(i), call.line(i) + inputs, line);
      std::fill(line + inputs, line + k, 0.0f);
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
  const std::int64_t panels = call.weights.panels;
  for (std::int64_t cell = cells.begin; cell < cells.end;) {
    const std::int64_t block = cell / panels / kMaxRowBlock * kMaxRowBlock;
    const std::int64_t rows = std::min(kMaxRowBlock, call.rows - block);
    const std::int64_t inside = cell - block * panels, panel = inside / rows;
    const std::int64_t row = inside % rows, left = cells.end - cell;
    LinearPart part{block + row, std::min(rows - row, left), panel, panel + 1};
    if (part.rows == rows) part.end = std::min(panels, panel + left / rows);
    run_part(call, part);
    cell += part.rows * (part.end - part.begin);
  }
}

// Equal numbers of cells for all threads, cut between tiles of rows.
Range CpuBackend::cells_of(const LinearCall& call, int thread) const {
  const Range even = split_range(call.cells(), thread, pool_.size());
  const auto cut = [&](std::int64_t cell) {
    const std::int64_t panels = call.weights.panels;
    const std::int64_t block = cell / panels / kMaxRowBlock * kMaxRowBlock;
    const std::int64_t rows = std::min(kMaxRowBlock, call.rows - block);
    if (rows <= 0) return cell;
    const std::int64_t row = (cell - block * panels) % rows;
    return rows < 2 * kRowStep ? cell : cell - row % kRowStep;
  };
  return {cut(even.begin), cut(even.end)};
}

void CpuBackend::run_linear(LinearCall& call) {
  const PackedLinear& weights = call.weights;
  if (call.rows == 0) return;
  QUIRE_CHECK(call.rows <= max_rows_ && weights.heads * weights.inputs <= max_padded_,
              "a step of {} rows of {} inputs; reserved: {} of {}", call.rows,
              weights.heads * weights.inputs, max_rows_, max_padded_);
  const std::int64_t activations = call.lines() * weights.inputs;
  const bool serial_door = activations <= kMaxSerialActivations;
  if (serial_door) prepare_lines(call, 0, call.lines());
  if (serial_door && activations * weights.outputs < kMinParallelWork)
    return run_cells(call, {0, call.cells()});
  pool_.run([&](int thread) {
    if (!serial_door) {
      const Range mine = split_range(call.lines(), thread, pool_.size());
      prepare_lines(call, mine.begin, mine.end);
      pool_.barrier();
    }
    run_cells(call, cells_of(call, thread));
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
  for (std::int64_t row = rows.begin; row < rows.end; row += kMaxRowBlock)
    run_part(call, {row, std::min(kMaxRowBlock, rows.end - row), panels.begin, panels.end});
}

void CpuBackend::linear_heads(const float* x, std::int64_t rows, const Linear& weights,
                              const HeadStrides& strides, float* y) {
  const TraceSpan span(TraceKind::kLinearHeads, rows, weights.inputs, weights.outputs);
  LinearCall call{static_cast<const PackedLinear&>(weights), x, y, rows, strides};
  run_linear(call);
}

}  // namespace quire
