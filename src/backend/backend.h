// The operations a model is made of, on one device. Activations between operations are f32,
// row-major, one row per token. Called on the engine thread; an operation returns when its result
// is there. A row's result depends on that row (and, in attention, on its own sequence's cache)
// only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/kv_geometry.h"
#include "tensor/op_kinds.h"
#include "tensor/tensor_view.h"

namespace quire {

// Weights of y = x W^T + b in the backend's own layout. Several matrices may be stacked along the
// outputs.
class Linear {
 public:
  virtual ~Linear() = default;
  std::int64_t outputs = 0, inputs = 0;
  std::int64_t packed_bytes = 0;
};

// K and V of all sequences, in blocks. Layout is the backend's own.
class KvCache {
 public:
  virtual ~KvCache() = default;
  // Gets all of its memory from the kernel now, not as it is used.
  virtual void touch() {}
  KvGeometry geometry;
  std::vector<std::int32_t> num_blocks;  // per group
};

// Where the rows of a step stand in their sequences; see ModelInput for the arrays.
struct AttentionBatch {
  std::span<const std::int32_t>
      row_begin;  // [sequences + 1]: rows of sequence s are [row_begin[s], row_begin[s+1])
  std::span<const std::int32_t> start_pos;  // [sequences]: position of the first of these rows
  std::span<const std::int32_t>
      block_table;  // block ids of all sequences of one KV group, concatenated
  std::span<const std::int32_t>
      table_begin;  // [sequences + 1] into block_table; entry i holds positions [i*B, i*B+B)
  // Number of the step among those of its cache: what was found out about the tables for one layer
  // holds for the group's others. 0: none, every call looks.
  std::uint64_t step = 0;
};

struct AttentionParams {
  std::int32_t q_heads = 0, kv_heads = 0, head_dim = 0, v_head_dim = 0;
  float scale = 1.0f;       // multiplies q.k
  std::int32_t window = 0;  // keys a query reaches, itself included; 0: all
  std::int32_t group = 0;   // KV group and the layer's index inside it
  std::int32_t layer = 0;
  std::int32_t chunk = 0;        // only keys of the same block of this many positions; 0: all
  float soft_cap = 0.0f;         // scores: cap * tanh(score / cap); 0: off
  const float* alibi = nullptr;  // [q_heads]: slope * (key position - query position); null: off
  bool v_in_k = false;           // V is the first v_head_dim elements of K: store_kv takes K alone
  const float* sinks =
      nullptr;  // [q_heads]: a logit that takes part in the softmax only; null: off
};

// Norms of parts of rows: `groups` parts of n elements follow each other in a row (heads).
struct NormArgs {
  NormKind kind = NormKind::kRms;
  float eps = 1e-5f;
  const float* weight = nullptr;  // [n], or [groups, n] with own_weights
  const float* bias = nullptr;    // the same, or null
  bool own_weights = false;
  std::int64_t n = 0, groups = 1;
  std::int64_t x_stride = 0, y_stride = 0;  // between rows; 0: groups * n
};

struct ActivationArgs {
  ActivationKind kind = ActivationKind::kSilu;
  bool gated = true;                   // act(gate) * up, else act(x)
  float alpha = 1.702f, limit = 7.0f;  // kSwigluOai
  float alpha_p = 0.0f, alpha_n = 0.0f, beta = 0.0f, xielu_eps = 0.0f;  // kXielu
};

// Where the heads of a row lie: head h of row r at r * row + h * head, on each side.
struct HeadStrides {
  std::int64_t x_row = 0, x_head = 0, y_row = 0, y_head = 0;
};

// In place: x * a; x clamped to +-a; a * tanh(x / a).
enum class MapKind : std::uint8_t { kScale, kClamp, kSoftCap };

// Rotary positions on `heads` parts of each row: part h begins at h * head_stride; its first
// rotary_dim elements turn.
struct RopeArgs {
  const float* cos = nullptr;  // [rows, rotary_dim / 2]
  const float* sin = nullptr;
  std::int32_t rotary_dim = 0;
  bool interleaved = false;
  std::int64_t heads = 0, head_stride = 0, row_stride = 0;
};

// How experts are chosen from a row of router logits (see MoeSpec for each field).
struct RouteArgs {
  RouterScore score = RouterScore::kSoftmax;
  std::int32_t experts = 0, top_k = 0;
  bool normalize = false;
  float normalize_epsilon = 0.0f, weight_scale = 1.0f;
  std::int32_t groups = 0, top_groups = 0;
  bool group_score_top2 = false;
  float jitter = 0.0f;
  const float* correction_bias = nullptr;  // [experts] or null
};

struct BlockCopy {
  std::int32_t group, source, target,
      tokens;  // first `tokens` positions of the block, all layers of the group
};

enum class Epilogue : std::uint8_t { kStore, kAdd };  // y = ..., y += ...

// A feed-forward layer: down(act(up(x))).
struct MlpArgs {
  const ActivationArgs& activation;
  const Linear& up;  // gate, then up, when gated
  const Linear& down;
  float* projected;  // scratch, left undefined: [rows, up.outputs]
  float* active;     // the same: [rows, down.inputs]
  Epilogue epilogue;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // "cpu (amx, 2 threads)": for the start log and --version.
  virtual std::string description() const = 0;
  virtual int num_threads() const = 0;
  // Whether attention is far faster over a cache in bf16 than over any other.
  virtual bool prefers_bf16_kv() const = 0;

  // ---- load time
  // weights: matrices [n_i, k] stacked along n; biases: one per weight or empty (a view may be
  // empty: zeros). A view's column_order is obeyed: activations are permuted at the door.
  virtual Result<std::unique_ptr<Linear>> pack_linear(std::span<const TensorView> weights,
                                                      std::span<const TensorView> biases) = 0;
  // One matrix per head, all [n, k] of one type: for linear_heads.
  virtual Result<std::unique_ptr<Linear>> pack_heads(std::span<const TensorView> weights) = 0;
  virtual std::unique_ptr<KvCache> make_kv_cache(const KvGeometry& geometry,
                                                 std::span<const std::int32_t> num_blocks) = 0;
  // Largest step that will come: scratch memory is sized for it here, and never in a step.
  // max_inputs: of products beyond those already packed; 0 is enough when only packed weights are
  // used.
  virtual void reserve(std::int64_t max_rows, std::int64_t max_inputs) = 0;

  // ---- step time
  // y[r] = table[ids[r]] as f32.  table: [vocab, n], any stored type; y: [rows, n]
  virtual void embed(const TensorView& table, std::span<const std::int32_t> ids, float* y) = 0;
  // y may be x itself (with equal strides).
  virtual void norm(const NormArgs& args, const float* x, std::int64_t rows, float* y) = 0;
  // x: [rows, inputs] with row stride x_stride (0: inputs), y: [rows, outputs] with row stride
  // y_stride (0: outputs)
  virtual void linear(const float* x, std::int64_t rows, const Linear& weights, float* y,
                      Epilogue epilogue, std::int64_t y_stride = 0, std::int64_t x_stride = 0) = 0;
  // linear() of what activate() makes of x, row by row where the product reads it: the same bits,
  // but the activated rows need not pass through memory.  x: as in activate(), n = inputs; scratch:
  // [rows, inputs], left undefined; y: [rows, outputs]
  virtual void linear_activated(const ActivationArgs& args, const float* x, std::int64_t rows,
                                const Linear& weights, float* scratch, float* y,
                                Epilogue epilogue) = 0;
  // linear() by `up`, then linear_activated() by `down`: the same bits, but what lies between need
  // not pass through memory.  x: [rows, up.inputs], y: [rows, down.outputs]
  virtual void mlp(const MlpArgs& args, const float* x, std::int64_t rows, float* y) = 0;
  // Each head's part of each row through its own matrix.  x: [rows][heads][inputs], y:
  // [rows][heads][outputs], placed as `strides` says
  virtual void linear_heads(const float* x, std::int64_t rows, const Linear& weights,
                            const HeadStrides& strides, float* y) = 0;
  // Rows [begin[e], begin[e + 1]) through experts[e], which all have one shape. reserve() has room
  // for them: begin.back() rows of `inputs` count as begin.back() * inputs / max_rows inputs.
  // x: [begin.back(), inputs]; begin: [experts + 1]; y: [begin.back(), outputs]
  virtual void linear_experts(const float* x, std::span<const std::int32_t> begin,
                              std::span<const Linear* const> experts, float* y) = 0;
  // x: [rows, 2 n], gate first, when gated, else [rows, n]; y: [rows, n]
  virtual void activate(const ActivationArgs& args, const float* x, std::int64_t rows,
                        std::int64_t n, float* y) = 0;
  virtual void map(MapKind kind, float a, float* x, std::int64_t rows, std::int64_t n) = 0;
  // y += a * row_scale[r] * x[r]; row_scale may be null.  x, y: [rows, n]
  virtual void add_scaled(const float* x, float a, const float* row_scale, std::int64_t rows,
                          std::int64_t n, float* y) = 0;
  // x[r] *= factors[r].  x: [rows, n] with row stride x_stride
  virtual void scale_rows(const float* factors, std::int64_t rows, std::int64_t n,
                          std::int64_t x_stride, float* x) = 0;
  // x *= sigmoid(gate).  x: [rows, n]; gate: [rows, n] with row stride gate_stride
  virtual void sigmoid_mul(const float* gate, std::int64_t gate_stride, std::int64_t rows,
                           std::int64_t n, float* x) = 0;
  // y[i] = x[index[i]].  rows of n
  virtual void gather_rows(const float* x, std::span<const std::int32_t> index, std::int64_t n,
                           float* y) = 0;
  // ids, weights: [rows, top_k], best first, ties to the lower expert.  logits: [rows, experts]
  virtual void route(const RouteArgs& args, const float* logits, std::int64_t rows,
                     std::int32_t* ids, float* weights) = 0;
  // y[r] = sum over k, in order, of weights[r, k] * x[index[r, k]], or y[r] += that.  weights,
  // index: [rows, top_k]
  virtual void combine(const float* x, const std::int32_t* index, const float* weights,
                       std::int64_t rows, std::int32_t top_k, std::int64_t n, Epilogue epilogue,
                       float* y) = 0;
  // cos, sin: [rows, half]: scale * cos(positions[r] * inv_freq[i]) in double, rounded to f32.
  virtual void rope_table(std::span<const std::int32_t> positions, std::span<const double> inv_freq,
                          double scale, float* cos, float* sin) = 0;
  virtual void rope(const RopeArgs& args, std::int64_t rows, float* x) = 0;
  // Stores the rows' k [kv_heads * head_dim] and v [kv_heads * v_head_dim], each with a row stride,
  // in the cache.
  virtual void store_kv(const float* k, std::int64_t k_stride, const float* v,
                        std::int64_t v_stride, const AttentionBatch& batch,
                        const AttentionParams& params, KvCache& cache) = 0;
  // q: rows with stride q_stride (the qkv buffer); out: [rows, q_heads * v_head_dim]. Causal; K and
  // V come from the cache only, also for this step's own rows.
  virtual void attention(const float* q, std::int64_t q_stride, const AttentionBatch& batch,
                         const AttentionParams& params, const KvCache& cache, float* out) = 0;
  // rope, store_kv and attention in one.  qkv: [rows, (q_heads + 2 kv_heads) * head_dim]: q, then
  // k, then v; q and k turn by cos and sin, [rows, rotary_dim / 2] (rotary_dim 0: not at all). What
  // qkv holds afterwards is not defined.
  virtual void rope_and_attend(float* qkv, const float* cos, const float* sin,
                               std::int32_t rotary_dim, bool interleaved,
                               const AttentionBatch& batch, const AttentionParams& params,
                               KvCache& cache, float* out) = 0;
  virtual void copy_blocks(std::span<const BlockCopy> copies, KvCache& cache) = 0;
  // Runs fn(0..count-1), spread over the kernel threads (sampling, log-softmax). fn must not call
  // the backend.
  virtual void parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& fn) = 0;
};

struct CpuBackendOptions {
  std::string kernels = "auto";  // --kernels
  int threads = 0;               // --threads; 0: usable_threads of the topology
  ComputeDType dtype = ComputeDType::kAuto;
};
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace quire
