#include "model/layers/mla.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace quire {

Status LatentAttention::load_heads(WeightLoader& loader, const std::string& prefix) {
  const std::int64_t heads = spec_.heads, nope = spec_.nope_dim, latent = spec_.kv_lora_rank,
                     v = spec_.v_dim;
  const bool split = loader.has(prefix + spec_.k_b + ".weight");
  TensorView keys, values;
  if (split) {
    QUIRE_ASSIGN(keys, loader.view(prefix + spec_.k_b + ".weight", Shape{heads, latent, nope}));
    QUIRE_ASSIGN(values, loader.view(prefix + spec_.v_b + ".weight", Shape{heads, v, latent}));
  } else {
    QUIRE_ASSIGN(keys,
                 loader.view(prefix + spec_.kv_b + ".weight", Shape{heads * (nope + v), latent}));
  }
  std::vector<WeightMatrix> key(static_cast<std::size_t>(heads)), value(key.size());
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto at = static_cast<std::size_t>(h);
    if (split) {
      key[at].view = WeightMatrix::of_stack(keys, h, latent, nope);
      value[at].view = WeightMatrix::of_stack(values, h, v, latent);
    } else {
      const std::int64_t row = h * (nope + v);
      key[at] = WeightMatrix::transposed(keys.slice_rows(row, row + nope));
      value[at].view = keys.slice_rows(row + nope, row + nope + v);
    }
  }
  QUIRE_ASSIGN(key_, loader.pack_heads(key));
  QUIRE_ASSIGN(value_, loader.pack_heads(value));
  loader.release(keys);
  if (split) loader.release(values);
  return {};
}

Result<std::unique_ptr<Mixer>> LatentAttention::load(WeightLoader& loader,
                                                     const std::string& prefix, std::int64_t hidden,
                                                     const MlaSpec& spec) {
  auto layer = std::make_unique<LatentAttention>();
  layer->spec_ = spec;
  const std::int64_t heads = spec.heads, q_width = heads * (spec.nope_dim + spec.rope_dim);
  const WeightLoader::Part kv{prefix + spec.kv_a, spec.kv_lora_rank + spec.rope_dim, false, {}};
  if (spec.q_lora_rank > 0) {
    QUIRE_ASSIGN(layer->input_,
                 loader.linear({{prefix + spec.q_a, spec.q_lora_rank, false, {}}, kv}, hidden));
    QUIRE_ASSIGN(layer->q_norm_, Norm::load(loader, prefix, spec.q_norm, spec.q_lora_rank));
    QUIRE_ASSIGN(layer->q_b_,
                 loader.linear({{prefix + spec.q_b, q_width, false, {}}}, spec.q_lora_rank));
  } else {
    QUIRE_ASSIGN(layer->input_, loader.linear({{prefix + spec.q, q_width, false, {}}, kv}, hidden));
  }
  QUIRE_ASSIGN(layer->kv_norm_, Norm::load(loader, prefix, spec.kv_norm, spec.kv_lora_rank));
  QUIRE_TRY(layer->load_heads(loader, prefix));
  QUIRE_ASSIGN(layer->output_,
               loader.linear({{prefix + spec.output, hidden, false, {}}}, heads * spec.v_dim));
  AttentionParams& params = layer->params_;
  params.q_heads = spec.heads;
  params.kv_heads = 1;
  params.head_dim = spec.kv_lora_rank + spec.rope_dim;
  params.v_head_dim = spec.kv_lora_rank;
  params.v_in_k = true;
  params.scale =
      spec.scale != 0
          ? spec.scale
          : static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.nope_dim + spec.rope_dim)));
  return layer;
}

std::optional<KvGroup> LatentAttention::kv_group() const {
  KvGroup group;
  group.kv_heads = 1;
  group.head_dim = params_.head_dim;
  group.v_head_dim = params_.v_head_dim;
  group.v_in_k = params_.v_in_k;
  return group;
}

void LatentAttention::absorb(Backend& backend, const float* q, std::int64_t q_stride,
                             std::int64_t rows, float* absorbed) const {
  const std::int64_t heads = spec_.heads, nope = spec_.nope_dim, rope = spec_.rope_dim,
                     latent = spec_.kv_lora_rank;
  const std::int64_t stride = heads * (latent + rope);
  backend.linear_heads(q, rows, *key_, {q_stride, nope + rope, stride, latent + rope}, absorbed);
  const auto copy_rotary = [&](std::int64_t r) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const float* const from = q + r * q_stride + h * (nope + rope) + nope;
      std::copy(from, from + rope, absorbed + r * stride + h * (latent + rope) + latent);
    }
  };
  backend.parallel_for(rows,
                       std::ref(copy_rotary));  // by reference: nothing is allocated in a step
}

void LatentAttention::forward(Backend& backend, Workspace& workspace, const MixerContext& context,
                              const float* x, Epilogue epilogue, float* y) const {
  const std::int64_t rows = context.input.rows(), heads = spec_.heads;
  const std::int64_t nope = spec_.nope_dim, rope_dim = spec_.rope_dim, latent = spec_.kv_lora_rank;
  AttentionParams params = params_;
  params.group = kv_group_index;
  params.layer = kv_layer;
  const AttentionBatch& batch = context.input.groups[static_cast<std::size_t>(params.group)];
  const std::size_t mark = workspace.mark();
  float* projected = workspace.take<float>(rows * input_->outputs);
  const std::int64_t stride = input_->outputs, q_part = stride - latent - rope_dim;
  backend.linear(x, rows, *input_, projected, Epilogue::kStore);
  float* q = projected;
  std::int64_t q_stride = stride;
  if (q_b_) {
    float* normed = workspace.take<float>(rows * spec_.q_lora_rank);
    q_stride = q_b_->outputs;
    q = workspace.take<float>(rows * q_stride);
    q_norm_.forward(backend, projected, rows, normed, stride);
    backend.linear(normed, rows, *q_b_, q, Epilogue::kStore);
  }
  float* const kv = projected + q_part;  // latent | rotary key
  kv_norm_.forward(backend, kv, rows, kv, stride, stride);
  if (spec_.rope >= 0) {
    const RopeTable& rope = context.ropes[static_cast<std::size_t>(spec_.rope)];
    backend.rope(
        {rope.cos, rope.sin, rope.rotary_dim, rope.interleaved, heads, nope + rope_dim, q_stride},
        rows, q + nope);
    backend.rope({rope.cos, rope.sin, rope.rotary_dim, rope.interleaved, 1, rope_dim, stride}, rows,
                 kv + latent);
  }
  backend.store_kv(kv, stride, nullptr, 0, batch, params, context.cache);
  float* absorbed = workspace.take<float>(rows * heads * (latent + rope_dim));
  float* mixed = workspace.take<float>(rows * heads * latent);
  float* values = workspace.take<float>(rows * output_->inputs);
  absorb(backend, q, q_stride, rows, absorbed);
  backend.attention(absorbed, heads * (latent + rope_dim), batch, params, context.cache, mixed);
  backend.linear_heads(mixed, rows, *value_, {heads * latent, latent, output_->inputs, spec_.v_dim},
                       values);
  backend.linear(values, rows, *output_, y, epilogue);
  workspace.release_to(mark);
}

std::int64_t LatentAttention::scratch_floats_per_row() const {
  const std::int64_t q = q_b_ ? spec_.q_lora_rank + q_b_->outputs : 0;
  return input_->outputs + q +
         std::int64_t{spec_.heads} * (2 * spec_.kv_lora_rank + spec_.rope_dim) + output_->inputs;
}

}  // namespace quire
