// Products of a mixture of experts: rows grouped by expert, all experts in one parallel region, so
// that many small matrices cost one barrier, not one or two each. Threads take pieces of experts,
// some panels of all the expert's rows, one after the other: which thread has which never shows in
// a result.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "base/trace.h"

namespace quire {
namespace {

// Pieces that each thread takes, on average: enough that the last ones end together.
constexpr std::int64_t kPiecesPerThread = 16;

const PackedLinear& packed(const Linear* linear) {
  return static_cast<const PackedLinear&>(*linear);
}
// Elements that a row of activations takes at most.
std::int64_t padded_row(const PackedLinear& weights) {
  return std::max(weights.inputs,
                  *std::max_element(weights.padded_k.begin(), weights.padded_k.end()));
}

}  // namespace

// Experts that follow each other and whose activations have one layout.
struct CpuBackend::ExpertsCall {
  const float* x;
  const std::int32_t* begin;  // [count + 1]
  const Linear* const* experts;
  std::int64_t count;
  float* y;

  const PackedLinear& weights(std::int64_t e) const { return packed(experts[e]); }
  Range rows(std::int64_t e) const { return {begin[e], begin[e + 1]}; }
};

void CpuBackend::prepare_experts(const ExpertsCall& call, Range rows) {
  for (std::int64_t e = 0; e < call.count; ++e) {
    const Range own{std::max(rows.begin, call.rows(e).begin), std::min(rows.end, call.rows(e).end)};
    if (own.begin < own.end) prepare_rows(call.weights(e), call.x, own);
  }
}

// Takes pieces of `panels` panels until none is left. Experts without rows have none.
void CpuBackend::run_pieces(const ExpertsCall& call, std::int64_t panels) {
  const std::int64_t all = call.weights(0).panels;
  const std::int64_t pieces = (all + panels - 1) / panels;  // of an expert
  std::int64_t e = -1, index = -1;  // the expert, and its place among those that have rows
  while (true) {
    const std::int64_t piece = next_item_.fetch_add(1, std::memory_order_relaxed);
    while (index < piece / pieces) {
      if (++e == call.count) return;
      if (call.rows(e).begin < call.rows(e).end) ++index;
    }
    const std::int64_t first = piece % pieces * panels;
    run_rows(call.weights(e), call.x, call.rows(e), {first, std::min(all, first + panels)}, call.y);
  }
}

void CpuBackend::run_experts(const ExpertsCall& call) {
  const PackedLinear& weights = call.weights(0);
  const Range rows{call.begin[0], call.begin[call.count]};
  const std::int64_t count = rows.end - rows.begin;
  if (count == 0) return;
  QUIRE_CHECK(rows.end * padded_row(weights) <= max_rows_ * max_padded_,
              "{} rows of {} inputs for experts; reserved: {} of {}", rows.end, weights.inputs,
              max_rows_, max_padded_);
  std::int64_t active = 0;
  for (std::int64_t e = 0; e < call.count; ++e) active += call.begin[e] < call.begin[e + 1] ? 1 : 0;
  next_item_.store(0, std::memory_order_relaxed);
  if (pool_.size() == 1 || count * weights.inputs * weights.outputs < kMinParallelWork) {
    prepare_experts(call, rows);
    return run_pieces(call, weights.panels);
  }
  const std::int64_t panels = std::clamp<std::int64_t>(
      active * weights.panels / (kPiecesPerThread * pool_.size()), 1, weights.panels);
  pool_.run([&](int thread) {
    const Range mine = split_range(count, thread, pool_.size());
    prepare_experts(call, {rows.begin + mine.begin, rows.begin + mine.end});
    pool_.barrier();
    run_pieces(call, panels);
  });
}

void CpuBackend::linear_experts(const float* x, std::span<const std::int32_t> begin,
                                std::span<const Linear* const> experts, float* y) {
  const TraceSpan span(TraceKind::kLinearExperts, begin.back(), experts[0]->inputs,
                       experts[0]->outputs);
  const auto count = static_cast<std::int64_t>(experts.size());
  for (std::int64_t first = 0, end; first < count; first = end) {
    const PackedLinear& weights = packed(experts[static_cast<std::size_t>(first)]);
    for (end = first + 1; end < count; ++end) {
      const PackedLinear& other = packed(experts[static_cast<std::size_t>(end)]);
      if (other.padded_k != weights.padded_k || other.panels != weights.panels) break;
    }
    run_experts({x, begin.data() + first, experts.data() + first, end - first, y});
  }
}

}  // namespace quire
