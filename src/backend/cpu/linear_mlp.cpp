// A gated feed-forward layer as one operation, where products are so fast that what lies between
// them, f32 of two matrices, would be bound by memory (AMX): a thread multiplies a panel of gate
// and the same one of up into a buffer that stays in its second-level cache, activates it, and
// keeps bf16 for the product that follows. The bits are those of the operations one by one.
#include "backend/cpu/cpu_backend.h"
#include "base/trace.h"

namespace quire {
namespace {

constexpr std::int64_t kPanel = kPanelStrips * kStrip;
constexpr std::int64_t kLeastRows = 64;  // fewer pass through the caches anyway
constexpr std::int64_t kLeastItems = 4;  // of each thread, so that even shares are even
// bf16 activations of a block of rows, which are read for every panel: 1 MB of the second-level
// cache.
constexpr std::int64_t kResident = 512 << 10;
constexpr std::int64_t kLeastBlock = 128;  // that weights are unpacked for

}  // namespace

// Panels of gate and up for row blocks: item i is block i / panels, panel i % panels.
struct CpuBackend::MlpCall {
  const ActivationArgs& activation;
  const PackedLinear &up, &down;
  std::int64_t rows, block;  // rows of a block
  std::int64_t panels() const { return up.segments[0].shape.panels(); }
  std::int64_t items() const { return (rows + block - 1) / block * panels(); }
};

bool CpuBackend::keeps_gate_in_cache(const MlpCall& call) const {
  const PackedLinear &up = call.up, &down = call.down;
  return kernels_.mm.integers_as_bf16 && call.activation.gated && call.rows >= kLeastRows &&
         up.segments.size() == 2 && up.heads == 1 && down.heads == 1 &&
         up.segments[0].shape.n == down.inputs && up.segments[1].shape.n == down.inputs &&
         up.column_order.empty() && down.column_order.empty() &&
         up.padded_k[index_of(ActForm::kF32)] == 0 && down.padded_k[index_of(ActForm::kF32)] == 0 &&
         call.items() >= kLeastItems * pool_.size();
}

// One segment's panel times rows of act_bf16_, to `c`, rows 2 * kPanel apart.
void CpuBackend::multiply_panel(const PackedLinear& weights, const PackedLinear::Segment& segment,
                                Range rows, std::int64_t panel, float* c) {
  const std::int64_t k = weights.padded_k[index_of(ActForm::kBF16)];
  MatmulArgs args;
  args.shape = segment.shape;
  args.weights = segment.weights.data();
  args.a = act_bf16_.as<std::uint16_t>() + rows.begin * k;
  args.a_stride = k;
  args.unscale = 1.0f / weights.bf16_factor;
  args.m = rows.end - rows.begin;
  args.panel_begin = panel;
  args.panel_end = panel + 1;
  if (weights.bias.size() > 0) args.bias = weights.bias.as<float>() + segment.first_output;
  args.c = c - panel * kPanel;
  args.ldc = 2 * kPanel;
  kernels_.mm.matmul[static_cast<std::size_t>(segment.shape.kind)][index_of(segment.form)](args);
}

void CpuBackend::run_gated_panel(const MlpCall& call, std::int64_t item, float* scratch) {
  const std::int64_t panels = call.panels(), panel = item % panels;
  const std::int64_t row = item / panels * call.block;
  const Range rows{row, std::min(call.rows, row + call.block)};
  const std::int64_t inputs = call.down.inputs, column = panel * kPanel;
  const std::int64_t width = std::min(kPanel, inputs - column);
  multiply_panel(call.up, call.up.segments[0], rows, panel, scratch);
  multiply_panel(call.up, call.up.segments[1], rows, panel, scratch + width);
  const std::int64_t k = call.down.padded_k[index_of(ActForm::kBF16)];
  const std::int64_t padded = panel + 1 == panels ? k - column : width;
  float active[kPanel];
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    activate_row(call.activation, scratch + (r - rows.begin) * 2 * kPanel, width, active);
    kernels_.mm.round_row_bf16(active, width, padded, call.down.bf16_factor,
                               act_bf16_next_.as<std::uint16_t>() + r * k + column);
  }
}

void CpuBackend::mlp(const MlpArgs& args, const float* x, std::int64_t rows, float* y) {
  const std::int64_t fitting = std::max(kLeastBlock, kResident / args.up.inputs / 32 * 32);
  const MlpCall call{args.activation, static_cast<const PackedLinear&>(args.up),
                     static_cast<const PackedLinear&>(args.down), rows,
                     std::min(kernels_.mm.row_block, fitting)};
  if (!keeps_gate_in_cache(call)) {
    linear(x, rows, args.up, args.projected, Epilogue::kStore, 0);
    return linear_activated(args.activation, args.projected, rows, args.down, args.active, y,
                            args.epilogue);
  }
  {
    const TraceSpan span(TraceKind::kLinear, rows, call.up.inputs, call.up.outputs);
    check_reserved(call.up, rows);
    check_reserved(call.down, rows);
    pool_.run([&](int thread) {
      const Range mine = split_range(rows, thread, pool_.size());
      prepare_rows(call.up, x, mine);
      pool_.barrier();
      const Range items = split_range(call.items(), thread, pool_.size());
      float* const scratch =
          gate_scratch_.as<float>() + thread * kernels_.mm.row_block * 2 * kPanel;
      for (std::int64_t i = items.begin; i < items.end; ++i) run_gated_panel(call, i, scratch);
    });
  }
  std::swap(act_bf16_, act_bf16_next_);
  multiply_prepared(call.down, rows, y, args.epilogue);
}

}  // namespace quire
