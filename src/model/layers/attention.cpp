#include "model/layers/attention.h"

namespace quire {

Result<AttentionLayer> AttentionLayer::load(WeightLoader& loader, const std::string& prefix, std::int64_t hidden,
                                            const AttentionParams& params, bool require_bias) {
  const std::int64_t q = std::int64_t{params.q_heads} * params.head_dim;
  const std::int64_t k = std::int64_t{params.kv_heads} * params.head_dim;
  const std::int64_t v = std::int64_t{params.kv_heads} * params.v_head_dim;
  AttentionLayer layer;
  layer.params = params;
  QUIRE_ASSIGN(layer.qkv, loader.linear({{prefix + ".q_proj", q}, {prefix + ".k_proj", k}, {prefix + ".v_proj", v}},
                                        hidden, require_bias));
  QUIRE_ASSIGN(layer.output,
               loader.linear({{prefix + ".o_proj", hidden}}, std::int64_t{params.q_heads} * params.v_head_dim));
  return layer;
}

void AttentionLayer::forward(Backend& backend, Workspace& workspace, const ModelInput& input, const RopeTable& rope,
                             KvCache& cache, const float* x, float* residual) const {
  const std::int64_t rows = input.rows();
  const AttentionBatch& batch = input.groups[static_cast<std::size_t>(params.group)];
  const std::size_t mark = workspace.mark();
  float* projected = workspace.take<float>(rows * qkv->outputs);   // [rows, q | k | v]
  float* mixed = workspace.take<float>(rows * output->inputs);     // [rows, q_heads * v_head_dim]
  backend.linear(x, rows, *qkv, projected, Epilogue::kStore);
  backend.rope_and_store(projected, rope.cos, rope.sin, rope.rotary_dim, rope.interleaved, batch, params, cache);
  backend.attention(projected, qkv->outputs, batch, params, cache, mixed);
  backend.linear(mixed, rows, *output, residual, Epilogue::kAdd);
  workspace.release_to(mark);
}

std::int64_t AttentionLayer::scratch_floats_per_row() const { return qkv->outputs + output->inputs; }

}  // namespace quire
