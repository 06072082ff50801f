#include "model/layers/attention.h"

#include <cmath>
#include <utility>

namespace quire {
namespace {

using Rows = std::vector<std::int64_t>;

void append_rows(Rows& rows, std::int64_t begin, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
}

// Rows of a fused matrix in the order q | k | v, where the file has them in `blocks` of
// `q_per_block` query heads, a key head and a value head.
Rows unfuse(std::int64_t blocks, std::int64_t q_per_block, std::int64_t head_dim) {
  const std::int64_t block = (q_per_block + 2) * head_dim;
  Rows rows;
  for (std::int64_t b = 0; b < blocks; ++b) append_rows(rows, b * block, q_per_block * head_dim);
  for (std::int64_t b = 0; b < blocks; ++b)
    append_rows(rows, b * block + q_per_block * head_dim, head_dim);
  for (std::int64_t b = 0; b < blocks; ++b)
    append_rows(rows, b * block + (q_per_block + 1) * head_dim, head_dim);
  return rows;
}

// Rows of q, or of its gate, where the file has [head][q, gate][head_dim].
Rows every_other_head(std::int64_t heads, std::int64_t head_dim, std::int64_t which) {
  Rows rows;
  for (std::int64_t h = 0; h < heads; ++h) append_rows(rows, (2 * h + which) * head_dim, head_dim);
  return rows;
}

std::vector<WeightLoader::Part> qkv_parts(const AttentionSpec& spec, const std::string& prefix) {
  const std::int64_t q = std::int64_t{spec.q_heads} * spec.head_dim;
  const std::int64_t kv = std::int64_t{spec.kv_heads} * spec.head_dim;
  const bool t = spec.transposed;
  switch (spec.layout) {
    case QkvLayout::kSeparate:
      break;
    case QkvLayout::kFused:
      return {{prefix + spec.qkv, q + 2 * kv, t, {}}};
    case QkvLayout::kPerHead:
      return {{prefix + spec.qkv, q + 2 * kv, t, unfuse(spec.q_heads, 1, spec.head_dim)}};
    case QkvLayout::kPerGroup:
      return {{prefix + spec.qkv, q + 2 * kv, t,
               unfuse(spec.kv_heads, spec.q_heads / spec.kv_heads, spec.head_dim)}};
  }
  std::vector<WeightLoader::Part> parts = {
      {prefix + spec.q, q, t, {}}, {prefix + spec.k, kv, t, {}}, {prefix + spec.v, kv, t, {}}};
  if (spec.output_gate) {
    parts[0] = {prefix + spec.q, 2 * q, t, every_other_head(spec.q_heads, spec.head_dim, 0)};
    parts.push_back({prefix + spec.q, 2 * q, t, every_other_head(spec.q_heads, spec.head_dim, 1)});
  }
  return parts;
}

Bias bias_rule(bool ignored, bool required) {
  return ignored ? Bias::kIgnored : required ? Bias::kRequired : Bias::kIfPresent;
}

Result<Norm> load_norm(WeightLoader& loader, const std::string& prefix, const AttentionSpec& spec,
                       const NormSpec& norm, std::int64_t heads) {
  if (spec.norm_all_heads) return Norm::load(loader, prefix, norm, heads * spec.head_dim);
  return Norm::load_heads(loader, prefix, norm, heads, spec.head_dim, spec.norm_per_head_weights);
}

}  // namespace

Result<std::unique_ptr<Mixer>> Attention::load(WeightLoader& loader, const std::string& prefix,
                                               std::int64_t hidden, const AttentionSpec& spec) {
  if (spec.q_heads <= 0 || spec.kv_heads <= 0 || spec.head_dim <= 0 ||
      spec.q_heads % spec.kv_heads != 0)
    return make_error(
        ErrorCode::kBadFile,
        "{} query heads, {} key-value heads of {}: the first must be a multiple of the second",
        spec.q_heads, spec.kv_heads, spec.head_dim);
  auto layer = std::make_unique<Attention>();
  layer->spec_ = spec;
  QUIRE_ASSIGN(layer->qkv_, loader.linear(qkv_parts(spec, prefix), hidden,
                                          bias_rule(spec.ignore_bias, spec.require_qkv_bias)));
  QUIRE_ASSIGN(layer->output_, loader.linear({{prefix + spec.output, hidden, spec.transposed, {}}},
                                             std::int64_t{spec.q_heads} * spec.head_dim,
                                             bias_rule(spec.ignore_bias || spec.ignore_output_bias,
                                                       spec.require_output_bias)));
  QUIRE_ASSIGN(layer->q_norm_, load_norm(loader, prefix, spec, spec.q_norm, spec.q_heads));
  QUIRE_ASSIGN(layer->k_norm_, load_norm(loader, prefix, spec, spec.k_norm, spec.kv_heads));
  if (!spec.sinks.empty()) {
    QUIRE_ASSIGN(layer->sinks_, loader.vector(prefix + spec.sinks, spec.q_heads));
  }
  AttentionParams& params = layer->params_;
  params.q_heads = spec.q_heads;
  params.kv_heads = spec.kv_heads;
  params.head_dim = params.v_head_dim = spec.head_dim;
  params.scale = spec.scale != 0
                     ? spec.scale
                     : static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  params.window = spec.window;
  params.chunk = spec.chunk;
  params.soft_cap = spec.soft_cap;
  if (!layer->spec_.alibi_slopes.empty()) params.alibi = layer->spec_.alibi_slopes.data();
  if (!layer->sinks_.empty()) params.sinks = layer->sinks_.data();
  return layer;
}

std::optional<KvGroup> Attention::kv_group() const {
  KvGroup group;
  // A chunk is no farther back than a window of its size.
  group.window = spec_.window > 0 ? spec_.window : spec_.chunk;
  group.kind = group.window > 0 ? KvGroupKind::kSlidingWindow : KvGroupKind::kFullAttention;
  group.kv_heads = spec_.kv_heads;
  group.head_dim = group.v_head_dim = spec_.head_dim;
  return group;
}

void Attention::norm_heads(Backend& backend, std::int64_t rows, float* projected) const {
  const std::int64_t stride = qkv_->outputs;
  float* const k = projected + std::int64_t{spec_.q_heads} * spec_.head_dim;
  if (!q_norm_.none()) q_norm_.forward(backend, projected, rows, projected, stride, stride);
  if (!k_norm_.none()) k_norm_.forward(backend, k, rows, k, stride, stride);
}

void Attention::scale_by_position(Backend& backend, Workspace& workspace, const ModelInput& input,
                                  float* projected) const {
  float* const factors = workspace.take<float>(input.rows());
  for (std::int64_t r = 0; r < input.rows(); ++r) {
    const double position = input.positions[static_cast<std::size_t>(r)];
    const double steps = std::floor((position + static_cast<double>(spec_.temperature_offset)) /
                                    static_cast<double>(spec_.temperature_floor));
    factors[r] =
        static_cast<float>(1 + static_cast<double>(spec_.temperature_scale) * std::log1p(steps));
  }
  backend.scale_rows(factors, input.rows(), std::int64_t{spec_.q_heads} * spec_.head_dim,
                     qkv_->outputs, projected);
}

void Attention::attend(Backend& backend, Workspace& workspace, const MixerContext& context,
                       const AttentionParams& params, const RopeTable& rope, float* projected,
                       float* mixed) const {
  const std::int64_t rows = context.input.rows(), stride = qkv_->outputs;
  const AttentionBatch& batch = context.input.groups[static_cast<std::size_t>(params.group)];
  if (!spec_.norm_after_rope) norm_heads(backend, rows, projected);
  if (spec_.clip_qkv > 0) backend.map(MapKind::kClamp, spec_.clip_qkv, projected, rows, stride);
  if (spec_.temperature_scale != 0) scale_by_position(backend, workspace, context.input, projected);
  if (!spec_.norm_after_rope && !spec_.output_gate) {
    backend.rope_and_attend(projected, rope.cos, rope.sin, rope.rotary_dim, rope.interleaved, batch,
                            params, context.cache, mixed);
    return;
  }
  if (rope.rotary_dim > 0) {
    const RopeArgs args{
        rope.cos,       rope.sin, rope.rotary_dim, rope.interleaved, spec_.q_heads + spec_.kv_heads,
        spec_.head_dim, stride};
    backend.rope(args, rows, projected);
  }
  if (spec_.norm_after_rope) norm_heads(backend, rows, projected);
  const float* const k = projected + std::int64_t{spec_.q_heads} * spec_.head_dim;
  const float* const v = k + std::int64_t{spec_.kv_heads} * spec_.head_dim;
  backend.store_kv(k, stride, v, stride, batch, params, context.cache);
  backend.attention(projected, stride, batch, params, context.cache, mixed);
}

void Attention::forward(Backend& backend, Workspace& workspace, const MixerContext& context,
                        const float* x, Epilogue epilogue, float* y) const {
  const std::int64_t rows = context.input.rows();
  AttentionParams params = params_;
  params.group = kv_group_index;
  params.layer = kv_layer;
  const RopeTable rope =
      spec_.rope >= 0 ? context.ropes[static_cast<std::size_t>(spec_.rope)] : RopeTable{};
  const std::size_t mark = workspace.mark();
  float* projected = workspace.take<float>(rows * qkv_->outputs);
  float* mixed = workspace.take<float>(rows * output_->inputs);  // [rows, q_heads * v_head_dim]
  backend.linear(x, rows, *qkv_, projected, Epilogue::kStore);
  attend(backend, workspace, context, params, rope, projected, mixed);
  if (spec_.output_gate) {
    const std::int64_t gate = std::int64_t{spec_.q_heads + 2 * spec_.kv_heads} * spec_.head_dim;
    backend.sigmoid_mul(projected + gate, qkv_->outputs, rows, output_->inputs, mixed);
  }
  backend.linear(mixed, rows, *output_, y, epilogue);
  workspace.release_to(mark);
}

std::int64_t Attention::scratch_floats_per_row() const {
  return qkv_->outputs + output_->inputs + 1;
}

}  // namespace quire
