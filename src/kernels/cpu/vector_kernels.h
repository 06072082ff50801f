// Everything that is not a matrix product: norms, activation, RoPE, KV store, attention. One row or
// one work item per call; the backend partitions. All sums in one fixed order, so a row's bits
// never depend on the batch, nor on the ISA: every table gives the bits of ref/. (One exception:
// attention of the AMX table over a cache in bf16, see amx/attention_amx.h.)
//
// "Lane sum" of v[0..n): lane l of 64 adds v[l], v[l + 64], ...; the four sixteens are added (0 +
// 1) + (2 + 3); then 16 lanes fold to 8 (l + (l + 8)), 4, 2, 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/op_kinds.h"

namespace quire {

// Keys of one attention tile, by absolute position: tile t covers positions [64 t, 64 t + 64).
inline constexpr int kKvTile = 64;
// Positions of one KV span: a sequence's spans are computed on their own and merged in ascending
// order, so that one long sequence can use several threads without changing a bit.
inline constexpr int kKvSpan = 1024;
// Query vectors (rows x query heads of one KV head) of one work item.
inline constexpr int kMaxQueryVectors = 128;
// Stands for "no key seen" in a running maximum; finite, so that differences are never NaN.
inline constexpr float kNoScore = -1e30f;
// Below this a token's K or V in int8 counts as zero (127 / max|x| would overflow).
inline constexpr float kTinyKv = 0x1p-119f;

inline constexpr std::int64_t round_up_16(std::int64_t n) { return (n + 15) / 16 * 16; }
inline constexpr std::int64_t round_up_32(std::int64_t n) { return (n + 31) / 32 * 32; }

// K and V of one sequence, layer and KV head. In block b (bytes at base + blocks[i] *
// block_stride):
//   K [head_dim][block_size] at 0, then V [block_size][v_head_dim], both `dtype`; with v_in_k V is
//   the first v_head_dim rows of K.
//   kI8: then the scales of K [block_size] and of V [block_size], f32: a value is code * scale.
struct KvHead {
  const std::byte* base = nullptr;
  std::int64_t block_stride = 0;  // bytes
  const std::int32_t* blocks =
      nullptr;                  // entry i holds positions [i * block_size, (i + 1) * block_size)
  std::int32_t block_size = 0;  // a multiple of 8, 8..256
  DType dtype = DType::kBF16;   // kF32, kBF16, kF16 or kI8
  std::int32_t head_dim = 0, v_head_dim = 0;
  bool v_in_k = false;
};
// Where the scales of an int8 block begin, in bytes; v_head_dim: of the V that is kept.
inline constexpr std::int64_t kv_scales_offset(std::int64_t head_dim, std::int64_t v_head_dim,
                                               std::int64_t block_size) {
  return (head_dim + v_head_dim) * block_size;
}
inline constexpr std::int64_t kv_scales_offset(const KvHead& kv) {
  return kv_scales_offset(kv.head_dim, kv.v_in_k ? 0 : kv.v_head_dim, kv.block_size);
}

// Online-softmax state of query vectors: the largest score, the sum of exp(score - max), and the
// values weighted by the same. acc: [vectors, round_up_16(v_head_dim)].
struct SoftmaxState {
  float* max = nullptr;
  float* sum = nullptr;
  float* acc = nullptr;
};

// One position run inside one block: `rows` rows go to offsets [offset, offset + rows).
struct KvStore {
  const float* k = nullptr;  // row r at k + r * k_stride: [head_dim]
  const float* v = nullptr;  // row r at v + r * v_stride: [v_head_dim], which may be 0
  std::int64_t k_stride = 0, v_stride = 0;
  std::int32_t rows = 0;
  std::byte* block = nullptr;  // this layer's and KV head's part of the block
  std::int32_t block_size = 0, offset = 0;
  std::int32_t head_dim = 0, v_head_dim = 0;
  // Values are rounded to nearest even; kI8: x * (127 / max|x|) of the token's head, clamped to
  // +-127, scale max|x| / 127; max|x| < kTinyKv: all 0.
  DType dtype = DType::kBF16;
};

// One work item: rows that follow each other in one sequence, all query heads of one KV head, one
// span of keys. Query vector i is row i / heads, head i % heads.
struct AttentionItem {
  KvHead kv;
  const float* q = nullptr;   // first row's first head of this KV head; heads follow each other
  std::int64_t q_stride = 0;  // floats between rows
  std::int32_t rows = 0, heads = 0;  // rows * heads <= kMaxQueryVectors
  std::int64_t first_pos = 0;        // position of row 0
  float scale = 1.0f;
  std::int32_t window = 0;       // keys a row reaches, itself included; 0: all
  std::int32_t chunk = 0;        // only keys of the same block of this many positions; 0: all
  float soft_cap = 0.0f;         // a score becomes cap * tanh(score / cap); 0: off
  const float* alibi = nullptr;  // [heads]: slope * (key - row) is added to a score; null: off
  std::int64_t span = 0;         // keys [span * kKvSpan, (span + 1) * kKvSpan)
  // K and V of the only row, stored before the tile that they lie in is read; null: they are there.
  // So late, because until then stores to lines that are far away hold up loads of other blocks,
  // which lie at the same place in their pages.
  const KvStore* store = nullptr;
  const std::byte* next_base = nullptr;  // a hint: kv.base of the item that this thread takes next,
                                         // with the same blocks and keys; null: unknown
  float* scratch = nullptr;              // attention_scratch_floats(), 64-byte aligned
};

// Tiles of K and V, scaled queries, scores, sums that are kept apart from the state.
inline constexpr std::int64_t attention_scratch_floats(std::int64_t head_dim,
                                                       std::int64_t v_head_dim) {
  return kKvTile * (round_up_32(head_dim) + round_up_16(v_head_dim) + 64) +
         kMaxQueryVectors * (round_up_32(head_dim) + kKvTile + round_up_16(v_head_dim));
}

// out = act(gate) * up, or act(gate) alone where there is no up.
//   kSilu, kGeluQuick:  x / (1 + exp(-a x)), a = 1, 1.702
//   kGeluTanh:          x / (1 + exp(-2 u)), u = 0.79788456 * fma(0.044715 x^2, x, x)
//   kGeluErf:           max(x, 0) - 0.5 |x| erfc(|x| / sqrt 2), erfc as in Abramowitz and
//   Stegun 7.1.26 kRelu, kRelu2:      max(x, 0), its square kXielu:             x > 0: alpha_p x^2
//   + beta x, else (exp(min(x, eps)) - 1 - x) alpha_n + beta x kSwigluOai:         g = min(gate,
//   limit), u = clamp(up, limit): g / (1 + exp(-alpha g)) * (u + 1)
struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  float alpha = 1.702f, limit = 7.0f;                                   // kSwigluOai
  float alpha_p = 0.0f, alpha_n = 0.0f, beta = 0.0f, xielu_eps = 0.0f;  // kXielu
};

// Whole rows in place: x * a; x in [-a, a]; a * tanh(x / a).
enum class MapOp : std::uint8_t { kScale, kClamp, kSoftCap };

struct VectorKernels {
  // attention_span has tiles for a cache in bf16, and is far slower over others.
  bool prefers_bf16_kv = false;
  // y[i] = (x[i] * (1 / sqrt(lane_sum(x^2) / n + eps))) * w[i]; squares are accumulated by FMA. y
  // may be x.
  void (*rms_norm)(const float* x, const float* w, float eps, std::int64_t n, float* y) = nullptr;
  // m = lane_sum(x) / n; v = lane_sum((x - m)^2) / n by FMA; y[i] = ((x[i] - m) * (1 / sqrt(v +
  // eps))) * w[i], by FMA + b[i] where b is not null. y may be x.
  void (*layer_norm)(const float* x, const float* w, const float* b, float eps, std::int64_t n,
                     float* y) = nullptr;
  // up may be null.
  void (*activate)(const Activation& activation, const float* gate, const float* up, std::int64_t n,
                   float* out) = nullptr;
  void (*map)(MapOp op, float a, std::int64_t n, float* x) = nullptr;
  // x[i] = x[i] / (1 + exp(-gate[i]))
  void (*sigmoid_mul)(const float* gate, std::int64_t n, float* x) = nullptr;
  // y[i] = fma(x[i], a, y[i])
  void (*add_scaled)(const float* x, float a, std::int64_t n, float* y) = nullptr;
  // out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]
  void (*silu_mul)(const float* gate, const float* up, std::int64_t n, float* out) = nullptr;
  // Rotates one head in place. cos, sin: [rotary_dim / 2]. interleaved: pairs (2i, 2i+1), else (i,
  // i + rotary_dim/2).
  //   a' = fma(a, c, -(b * s)), b' = fma(b, c, a * s)
  void (*rope)(float* head, const float* cos, const float* sin, std::int64_t rotary_dim,
               bool interleaved) = nullptr;
  void (*store_kv)(const KvStore& store) = nullptr;
  // Sets `state` to that of the item's span alone. Tiles are taken in ascending order; in each, per
  // query vector:
  //   s_k = sum by FMA over d ascending of (q_d * scale) * k_d; then the soft cap (as MapOp's);
  //   then fma(slope, k - row, s_k) where there are slopes; masked keys (after the row, before its
  //   window or chunk) apart, m' = max(m, s_k); c = exp(m - m');  p_k = softmax_exp(s_k - m'),
  //   masked: 0;
  //   sum = fma(sum, c, lane_sum(p));  acc = acc * c, then acc = fma(p_k, v_k, acc) over k
  //   ascending
  void (*attention_span)(const AttentionItem& item, const SoftmaxState& state) = nullptr;
  // Adds the state of the next span: m' = max(m, n.m); c = exp(m - m'); e = exp(n.m - m');
  //   sum = fma(n.sum, e, sum * c);  acc = fma(n.acc, e, acc * c)
  void (*attention_merge)(const SoftmaxState& next, std::int64_t vectors, std::int64_t v_head_dim,
                          const SoftmaxState& state) = nullptr;
  // out[d] = acc[d] / sum + 0 (which turns -0 into 0, so that masked keys leave no trace). Vector i
  // goes to out + (i / heads) * out_stride + (i % heads) * v_head_dim.
  void (*attention_finish)(const SoftmaxState& state, std::int64_t vectors, std::int64_t heads,
                           std::int64_t v_head_dim, std::int64_t out_stride, float* out) = nullptr;
};

// Each fills every entry. ISA tables may be used only where the machine has that ISA (see
// select_kernels).
void fill_vector_kernels_ref(VectorKernels* kernels);
void fill_vector_kernels_avx2(VectorKernels* kernels);
void fill_vector_kernels_avx512(VectorKernels* kernels);
void fill_vector_kernels_amx(VectorKernels* kernels);
void fill_vector_kernels_neon(VectorKernels* kernels);
// The tiles of the ISA tables over the scalar emulation of a vector, for tests.
void fill_vector_kernels_emulated(VectorKernels* kernels);

}  // namespace quire
