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
};

struct AttentionParams {
  std::int32_t q_heads = 0, kv_heads = 0, head_dim = 0, v_head_dim = 0;
  float scale = 1.0f;       // multiplies q.k
  std::int32_t window = 0;  // keys a query reaches, itself included; 0: all
  std::int32_t group = 0;   // KV group and the layer's index inside it
  std::int32_t layer = 0;
};

struct BlockCopy {
  std::int32_t group, source, target,
      tokens;  // first `tokens` positions of the block, all layers of the group
};

enum class Epilogue : std::uint8_t { kStore, kAdd };  // y = ..., y += ...

class Backend {
 public:
  virtual ~Backend() = default;
  // "cpu (amx, 2 threads)": for the start log and --version.
  virtual std::string description() const = 0;
  virtual int num_threads() const = 0;

  // ---- load time
  // weights: matrices [n_i, k] stacked along n; biases: one per weight or empty (a view may be
  // empty: zeros).
  virtual Result<std::unique_ptr<Linear>> pack_linear(std::span<const TensorView> weights,
                                                      std::span<const TensorView> biases) = 0;
  virtual std::unique_ptr<KvCache> make_kv_cache(const KvGeometry& geometry,
                                                 std::span<const std::int32_t> num_blocks) = 0;
  // Largest step that will come: scratch memory is sized for it here, and never in a step.
  // max_inputs: of products beyond those already packed; 0 is enough when only packed weights are
  // used.
  virtual void reserve(std::int64_t max_rows, std::int64_t max_inputs) = 0;

  // ---- step time
  // y[r] = table[ids[r]] as f32.  table: [vocab, n], any stored type; y: [rows, n]
  virtual void embed(const TensorView& table, std::span<const std::int32_t> ids, float* y) = 0;
  // y: [rows, n]; may be x itself.  w: [n]
  virtual void rms_norm(const float* x, const float* w, float eps, std::int64_t rows,
                        std::int64_t n, float* y) = 0;
  // x: [rows, inputs], y: [rows, outputs] with row stride y_stride (0: outputs)
  virtual void linear(const float* x, std::int64_t rows, const Linear& weights, float* y,
                      Epilogue epilogue, std::int64_t y_stride = 0) = 0;
  // gate_up: [rows, 2 n], gate first; y: [rows, n]
  virtual void silu_mul(const float* gate_up, std::int64_t rows, std::int64_t n, float* y) = 0;
  // cos, sin: [rows, half]: cos(positions[r] * inv_freq[i]) in double, rounded to f32.
  virtual void rope_table(std::span<const std::int32_t> positions, std::span<const double> inv_freq,
                          float* cos, float* sin) = 0;
  // qkv: [rows, (q_heads + 2 kv_heads) * head_dim]: q, then k, then v. Rotates q and k in place
  // (rotary_dim 0: not at all), then stores k and v of every row in the cache.
  virtual void rope_and_store(float* qkv, const float* cos, const float* sin,
                              std::int32_t rotary_dim, bool interleaved,
                              const AttentionBatch& batch, const AttentionParams& params,
                              KvCache& cache) = 0;
  // q: rows with stride q_stride (the qkv buffer); out: [rows, q_heads * v_head_dim]. Causal; K and
  // V come from the cache only, also for this step's own rows.
  virtual void attention(const float* q, std::int64_t q_stride, const AttentionBatch& batch,
                         const AttentionParams& params, const KvCache& cache, float* out) = 0;
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
