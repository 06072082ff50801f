// The Backend on CPUs: partitions each operation over the kernel threads and calls the kernels of
// one table. Owns the threads and all scratch memory. Engine thread only (load time included).
//
// Which thread computes what never shows in a result: a kernel call's bits depend on its own rows
// only.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cpu/weight_slabs.h"
#include "backend/cpu/work_shares.h"
#include "kernels/cpu/kernels.h"
#include "tensor/buffer.h"
#include "tensor/touch_ahead.h"

namespace quire {

// Multiply-adds of a product below which waking the other threads costs more than it brings.
inline constexpr std::int64_t kMinParallelWork = 1 << 16;

// Stacked matrices, one segment each: a segment has its own packed kind (files mix kinds inside a
// layer).
class PackedLinear final : public Linear {
 public:
  struct Segment {
    PackedShape shape;
    ActForm form = ActForm::kF32;
    std::int64_t first_output = 0;
    std::int64_t first_panel = 0;  // counted over all segments
    SlabBytes weights;
  };
  std::vector<Segment> segments;
  std::int64_t panels = 0;  // of all segments
  // 1, or one segment per head (pack_heads): inputs and outputs are then those of one head.
  std::int64_t heads = 1;
  std::array<std::int64_t, kNumActForms>
      padded_k{};  // widest padded K among the segments of a form; 0: unused
  // What bf16 activations are multiplied by: not 1 where any segment is a kind that asks for it.
  float bf16_factor = 1.0f;
  Buffer bias;  // f32 [outputs], or empty
  // Stored column c of every segment is input column_order[c]; empty: as they are.
  std::vector<std::int32_t> column_order;
};

// Blocks of a group lie one after the other; in a block [layer][kv head] parts, each laid out as
// KvHead says.
class CpuKvCache final : public KvCache {
 public:
  std::vector<Buffer> groups;
  std::vector<std::unique_ptr<TouchAhead>> touch_ahead;  // of each group
  // Of each group: whether rows of the step are apart (CpuBackend::rows_apart).
  struct StepTables {
    std::uint64_t step = 0;
    bool apart = false;
  };
  std::vector<StepTables> tables;

  void touch() override {
    for (const auto& group : touch_ahead) group->touch_all();
  }

  // Offset of one layer's and head's part inside a block.
  std::int64_t part_offset(std::size_t group, std::int64_t layer, std::int64_t head) const {
    return (layer * geometry.groups[group].kv_heads + head) * geometry.head_bytes(group);
  }
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(const KernelTable& kernels, ComputeDType dtype, const ThreadPool::Options& threads);

  std::string description() const override;
  int num_threads() const override { return pool_.size(); }
  bool prefers_bf16_kv() const override { return kernels_.vec.prefers_bf16_kv; }

  Result<std::unique_ptr<Linear>> pack_linear(std::span<const TensorView> weights,
                                              std::span<const TensorView> biases) override;
  Result<std::unique_ptr<Linear>> pack_heads(std::span<const TensorView> weights) override;
  std::unique_ptr<KvCache> make_kv_cache(const KvGeometry& geometry,
                                         std::span<const std::int32_t> num_blocks) override;
  void reserve(std::int64_t max_rows, std::int64_t max_inputs) override;

  void embed(const TensorView& table, std::span<const std::int32_t> ids, float* y) override;
  void norm(const NormArgs& args, const float* x, std::int64_t rows, float* y) override;
  void linear(const float* x, std::int64_t rows, const Linear& weights, float* y, Epilogue epilogue,
              std::int64_t y_stride, std::int64_t x_stride = 0) override;
  void linear_activated(const ActivationArgs& args, const float* x, std::int64_t rows,
                        const Linear& weights, float* scratch, float* y,
                        Epilogue epilogue) override;
  void mlp(const MlpArgs& args, const float* x, std::int64_t rows, float* y) override;
  void linear_heads(const float* x, std::int64_t rows, const Linear& weights,
                    const HeadStrides& strides, float* y) override;
  void linear_experts(const float* x, std::span<const std::int32_t> begin,
                      std::span<const Linear* const> experts, float* y) override;
  void activate(const ActivationArgs& args, const float* x, std::int64_t rows, std::int64_t n,
                float* y) override;
  void map(MapKind kind, float a, float* x, std::int64_t rows, std::int64_t n) override;
  void add_scaled(const float* x, float a, const float* row_scale, std::int64_t rows,
                  std::int64_t n, float* y) override;
  void scale_rows(const float* factors, std::int64_t rows, std::int64_t n, std::int64_t x_stride,
                  float* x) override;
  void sigmoid_mul(const float* gate, std::int64_t gate_stride, std::int64_t rows, std::int64_t n,
                   float* x) override;
  void gather_rows(const float* x, std::span<const std::int32_t> index, std::int64_t n,
                   float* y) override;
  void route(const RouteArgs& args, const float* logits, std::int64_t rows, std::int32_t* ids,
             float* weights) override;
  void combine(const float* x, const std::int32_t* index, const float* weights, std::int64_t rows,
               std::int32_t top_k, std::int64_t n, Epilogue epilogue, float* y) override;
  void rope_table(std::span<const std::int32_t> positions, std::span<const double> inv_freq,
                  double scale, float* cos, float* sin) override;
  void rope(const RopeArgs& args, std::int64_t rows, float* x) override;
  void store_kv(const float* k, std::int64_t k_stride, const float* v, std::int64_t v_stride,
                const AttentionBatch& batch, const AttentionParams& params,
                KvCache& cache) override;
  void attention(const float* q, std::int64_t q_stride, const AttentionBatch& batch,
                 const AttentionParams& params, const KvCache& cache, float* out) override;
  void rope_and_attend(float* qkv, const float* cos, const float* sin, std::int32_t rotary_dim,
                       bool interleaved, const AttentionBatch& batch, const AttentionParams& params,
                       KvCache& cache, float* out) override;
  void copy_blocks(std::span<const BlockCopy> copies, KvCache& cache) override;
  void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& fn) override;

 private:
  // Calls fn(begin, end) for parts of [0, rows), one per thread; on the caller alone when the work,
  // counted in elements touched, is not worth waking others.
  template <class Fn>
  void for_rows(std::int64_t rows, std::int64_t elements_per_row, Fn&& fn) {
    if (rows * elements_per_row < kMinParallelElements || pool_.size() == 1 || rows == 1) {
      if (rows > 0) fn(std::int64_t{0}, rows);
      return;
    }
    pool_.run([&](int thread) {
      const Range range = split_range(rows, thread, pool_.size());
      if (range.begin < range.end) fn(range.begin, range.end);
    });
  }
  static constexpr std::int64_t kMinParallelElements = 16384;

  // elementwise.cpp: one row, as activate() does it
  void activate_row(const ActivationArgs& args, const float* x, std::int64_t n, float* y) const;

  // linear.cpp
  void reserve_activations(std::int64_t max_inputs);
  struct LinearCall;
  // Columns of x in the order of the weights', to act_f32_, for lines [begin, end).
  void order_lines(const LinearCall& call, std::int64_t begin, std::int64_t end);
  const float* activate_line(const LinearCall& call, std::int64_t i, float* to) const;
  void check_reserved(const PackedLinear& weights, std::int64_t rows) const;
  void run_linear(LinearCall& call);
  // Activations as the kernels want them, for lines [begin, end): every head of every row.
  void prepare_lines(const LinearCall& call, std::int64_t begin, std::int64_t end);
  struct LinearPart;
  void run_part(const LinearCall& call, const LinearPart& part);
  void run_cells(const LinearCall& call, Range cells);
  Range cells_of(const LinearCall& call, int thread) const;
  int start_shares(const LinearCall& call);
  Range piece_of(const LinearCall& call, Range share, int piece, int pieces) const;
  void run_share(const LinearCall& call, int thread, int pieces);
  void prepare_rows(const PackedLinear& weights, const float* x, Range rows);
  void run_rows(const PackedLinear& weights, const float* x, Range rows, Range panels, float* y);

  // Products of lines that are in act_* already.
  void multiply_prepared(const PackedLinear& weights, std::int64_t rows, float* y,
                         Epilogue epilogue);

  // linear_mlp.cpp
  struct MlpCall;
  bool keeps_gate_in_cache(const MlpCall& call) const;
  void multiply_panel(const PackedLinear& weights, const PackedLinear::Segment& segment, Range rows,
                      std::int64_t panel, float* c);
  void run_gated_panel(const MlpCall& call, std::int64_t item, float* scratch);

  // linear_experts.cpp
  struct ExpertsCall;
  void prepare_experts(const ExpertsCall& call, Range lines);
  void run_pieces(const ExpertsCall& call, std::int64_t panels);
  void run_experts(const ExpertsCall& call);

  // kv_cache.cpp
  struct KvSource;
  static void touch_beyond(const AttentionBatch& batch, const AttentionParams& params,
                           CpuKvCache& cache);
  void store_rows(const KvSource& source, const AttentionBatch& batch,
                  const AttentionParams& params, CpuKvCache& cache, std::int64_t begin,
                  std::int64_t end);

  // rope_and_attend.cpp
  struct NewRows;
  void rope_and_store(float* qkv, std::int64_t stride, const NewRows& rows,
                      const AttentionBatch& batch, const AttentionParams& params);
  bool rows_apart(const AttentionBatch& batch, const KvCache& cache);
  bool apart_in_step(const AttentionBatch& batch, const AttentionParams& params, CpuKvCache& cache);
  struct AttentionCall;
  struct RowBlock {  // rows of one sequence that are one work item for each KV head
    std::int32_t sequence, first_row, rows;
    std::int32_t first_span, num_spans;
    std::int64_t first_slot;  // of its partial states, when spans go to different threads
  };
  void enter_row(const AttentionCall& call, const RowBlock& block, std::int64_t unit,
                 AttentionItem* item, KvStore* store) const;

  // attention.cpp
  void reserve_attention(const CpuKvCache& cache);
  void plan_attention(const AttentionCall& call);
  void attend(const AttentionCall& call);
  AttentionItem make_item(const AttentionCall& call, const RowBlock& block, std::int64_t unit,
                          float* scratch) const;
  void attend_whole(const AttentionCall& call, std::int64_t item, bool more, float* scratch);
  void attend_block(const AttentionCall& call, std::int64_t block, float* scratch);
  void attend_span(const AttentionCall& call, std::int64_t item, float* scratch);
  void finish_item(const AttentionCall& call, const RowBlock& block, std::int64_t unit,
                   const SoftmaxState& state) const;
  void merge_spans(const AttentionCall& call, std::int64_t item, float* scratch);

  const KernelTable& kernels_;
  const ComputeDType dtype_;
  WeightSlabs slabs_;
  ThreadPool pool_;
  WorkShares shares_{pool_.size()};  // of the product in progress

  // Activations at the door of a matrix product, all rows of the step.
  std::int64_t max_rows_ = 0, max_padded_ = 0;
  Buffer act_f32_, act_bf16_, act_q_, act_scale_, act_sum_, act_isum_;
  Buffer act_bf16_next_;  // where linear_mlp.cpp makes what its second product takes as act_bf16_
  Buffer gate_scratch_;   // of each thread: [row_block][gate, up][64] f32

  std::vector<RowBlock> row_blocks_;  // of the attention call in progress; capacity from reserve()
  std::vector<std::int64_t> span_ends_;  // cumulated spans of row_blocks_
  Buffer attention_scratch_;             // per thread
  std::int64_t attention_scratch_floats_ = 0;
  Buffer partials_;                   // states of spans, f32
  std::vector<std::int32_t> writer_;  // by block: zeros, except inside rows_apart
  alignas(64) std::atomic<std::int64_t> next_item_{0};
  alignas(64) std::atomic<std::int64_t> next_merge_{0};
};

}  // namespace quire
