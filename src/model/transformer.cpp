#include "model/transformer.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "base/trace.h"
#include "model/layers/attention.h"
#include "model/layers/mla.h"
#include "model/layers/mlp.h"
#include "model/layers/moe.h"
#include "model/layers/recurrent.h"

namespace quire {
namespace {

// Room for the alignment of workspace parts, and for layers' constant amounts.
constexpr std::size_t kWorkspaceSlack = 256 * 1024;

Result<std::unique_ptr<Mixer>> load_mixer(WeightLoader& loader, const LayerSpec& layer,
                                          std::int64_t hidden) {
  const std::string& prefix = layer.prefix;
  return std::visit(
      Overloaded{
          [&](const AttentionSpec& spec) { return Attention::load(loader, prefix, hidden, spec); },
          [&](const MlaSpec& spec) { return LatentAttention::load(loader, prefix, hidden, spec); },
          [&](const MambaSpec& spec) { return load_mamba(loader, prefix, hidden, spec); },
          [&](const Mamba2Spec& spec) { return load_mamba2(loader, prefix, hidden, spec); },
          [&](const DeltaNetSpec& spec) { return load_delta_net(loader, prefix, hidden, spec); },
          [&](const ShortConvSpec& spec) { return load_short_conv(loader, prefix, hidden, spec); },
      },
      layer.mixer);
}

Result<std::unique_ptr<FeedForward>> load_mlp(WeightLoader& loader, const LayerSpec& layer,
                                              std::int64_t hidden) {
  using Loaded = Result<std::unique_ptr<FeedForward>>;
  return std::visit(Overloaded{
                        [&](std::monostate) -> Loaded { return std::unique_ptr<FeedForward>(); },
                        [&](const MlpSpec& spec) -> Loaded {
                          return Mlp::load(loader, layer.prefix, hidden, spec);
                        },
                        [&](const MoeSpec& spec) -> Loaded {
                          return Moe::load(loader, layer.prefix, hidden, spec);
                        },
                    },
                    layer.mlp);
}

bool same_group(const KvGroup& a, const KvGroup& b) {
  return a.kind == b.kind && a.window == b.window && a.kv_heads == b.kv_heads &&
         a.head_dim == b.head_dim && a.v_head_dim == b.v_head_dim && a.v_in_k == b.v_in_k;
}

}  // namespace

Transformer::Transformer(ModelSpec spec, Backend& backend)
    : spec_(std::move(spec)), backend_(backend) {
  hidden_size = spec_.hidden_size;
  vocab_size = spec_.vocab_size;
}

Result<std::unique_ptr<Model>> Transformer::load(ModelSpec spec, const WeightSource& weights,
                                                 Backend& backend) {
  std::unique_ptr<Transformer> model(new Transformer(std::move(spec), backend));
  WeightLoader loader(weights, backend, model->spec_.online_bits);
  QUIRE_TRY(model->load_all(loader));
  model->weight_bytes = loader.packed_bytes();
  model->state_bytes_per_slot = model->states_.bytes_per_slot();
  model->has_recurrent_state = model->state_bytes_per_slot > 0;
  return model;
}

Status Transformer::load_all(WeightLoader& loader) {
  for (const RopeConfig& config : spec_.ropes) {
    QUIRE_ASSIGN(Rope rope, Rope::create(config));
    ropes_.push_back(std::move(rope));
  }
  QUIRE_ASSIGN(embedding_,
               loader.view(spec_.embedding + ".weight", Shape{vocab_size, embedding_size()}));
  QUIRE_ASSIGN(embedding_norm_, Norm::load(loader, "", spec_.embedding_norm, hidden_size));
  if (!spec_.position_embedding.empty()) {
    QUIRE_ASSIGN(position_embedding_,
                 loader.table(spec_.position_embedding + ".weight", hidden_size));
  }
  if (!spec_.project_in.empty()) {
    QUIRE_ASSIGN(project_in_,
                 loader.linear({{spec_.project_in, hidden_size, false, {}}}, embedding_size()));
    QUIRE_ASSIGN(project_out_,
                 loader.linear({{spec_.project_out, embedding_size(), false, {}}}, hidden_size));
  }
  for (const LayerSpec& layer_spec : spec_.layers) {
    QUIRE_ASSIGN(Layer layer, load_layer(loader, layer_spec));
    layers_.push_back(std::move(layer));
  }
  QUIRE_ASSIGN(final_norm_, Norm::load(loader, "", spec_.final_norm, hidden_size));
  const std::string& head = spec_.tied_head ? spec_.embedding : spec_.head;
  const Bias bias = spec_.head_bias ? Bias::kRequired : Bias::kIfPresent;
  QUIRE_ASSIGN(head_, loader.linear({{head, vocab_size, false, {}}}, embedding_size(), bias,
                                    Precision::kAsStored));
  return {};
}

std::int64_t Transformer::embedding_size() const {
  return spec_.embedding_size > 0 ? spec_.embedding_size : hidden_size;
}

Result<Transformer::Layer> Transformer::load_layer(WeightLoader& loader, const LayerSpec& spec) {
  Layer layer;
  layer.parallel = spec.parallel;
  layer.residual_multiplier = spec.residual_multiplier;
  layer.residual_after_norm = spec.residual_after_norm;
  QUIRE_ASSIGN(layer.input_norm, Norm::load(loader, spec.prefix, spec.input_norm, hidden_size));
  QUIRE_ASSIGN(layer.post_mixer_norm,
               Norm::load(loader, spec.prefix, spec.post_mixer_norm, hidden_size));
  QUIRE_ASSIGN(layer.mlp_norm, Norm::load(loader, spec.prefix, spec.mlp_norm, hidden_size));
  QUIRE_ASSIGN(layer.post_mlp_norm,
               Norm::load(loader, spec.prefix, spec.post_mlp_norm, hidden_size));
  QUIRE_ASSIGN(layer.mixer_sum_norm,
               Norm::load(loader, spec.prefix, spec.mixer_sum_norm, hidden_size));
  QUIRE_ASSIGN(layer.mlp_sum_norm, Norm::load(loader, spec.prefix, spec.mlp_sum_norm, hidden_size));
  QUIRE_ASSIGN(layer.mixer, load_mixer(loader, spec, hidden_size));
  QUIRE_ASSIGN(layer.mlp, load_mlp(loader, spec, hidden_size));
  place_in_caches(*layer.mixer);
  return layer;
}

void Transformer::place_in_caches(Mixer& mixer) {
  if (mixer.state_floats() > 0) mixer.state_offset = states_.add_layer(mixer.state_floats());
  const std::optional<KvGroup> wanted = mixer.kv_group();
  if (!wanted) return;
  const auto found = std::find_if(kv_groups_.begin(), kv_groups_.end(),
                                  [&](const KvGroup& group) { return same_group(group, *wanted); });
  mixer.kv_group_index = static_cast<std::int32_t>(found - kv_groups_.begin());
  if (found == kv_groups_.end()) kv_groups_.push_back(*wanted);
  mixer.kv_layer = kv_groups_[static_cast<std::size_t>(mixer.kv_group_index)].num_layers++;
}

KvGeometry Transformer::kv_geometry(std::int32_t block_size, DType kv_dtype) const {
  return {kv_groups_, block_size, kv_dtype};
}

std::size_t Transformer::workspace_bytes(std::int64_t max_rows, std::int64_t max_logits) const {
  std::int64_t widest = 0, tables = 0;
  for (const Layer& layer : layers_) {
    widest = std::max(widest, layer.mixer->scratch_floats_per_row());
    if (layer.mlp) widest = std::max(widest, layer.mlp->scratch_floats_per_row());
  }
  for (const Rope& rope : ropes_) tables += rope.scratch_floats_per_row();
  const std::int64_t outer = project_in_ ? embedding_size() : 0;
  const std::int64_t floats = max_rows * (2 * hidden_size + tables + std::max(widest, outer)) +
                              max_logits * (hidden_size + outer);
  return static_cast<std::size_t>(floats) * sizeof(float) + kWorkspaceSlack;
}

std::uint64_t Transformer::kv_regime(std::int64_t prompt_tokens) const {
  std::uint64_t regime = 0;
  for (const Rope& rope : ropes_) regime = regime * 1000003 + rope.regime(prompt_tokens);
  return regime;
}

void Transformer::embed(const ModelInput& input, Workspace& workspace, float* scratch,
                        float* hidden) const {
  const std::int64_t rows = input.rows();
  if (project_in_) {
    const std::size_t mark = workspace.mark();
    float* const narrow = workspace.take<float>(rows * embedding_size());
    backend_.embed(embedding_, input.token_ids, narrow);
    backend_.linear(narrow, rows, *project_in_, hidden, Epilogue::kStore);
    workspace.release_to(mark);
  } else {
    backend_.embed(embedding_, input.token_ids, hidden);
  }
  if (spec_.embedding_multiplier != 1.0f)
    backend_.map(MapKind::kScale, spec_.embedding_multiplier, hidden, rows, hidden_size);
  if (!position_embedding_.empty()) {
    const std::size_t mark = workspace.mark();
    std::int32_t* const index = workspace.take<std::int32_t>(rows);
    for (std::int64_t r = 0; r < rows; ++r)
      index[r] = input.positions[static_cast<std::size_t>(r)] + spec_.position_offset;
    backend_.embed(position_embedding_, {index, static_cast<std::size_t>(rows)}, scratch);
    backend_.add_scaled(scratch, 1.0f, nullptr, rows, hidden_size, hidden);
    workspace.release_to(mark);
  }
  if (!embedding_norm_.none()) embedding_norm_.forward(backend_, hidden, rows, hidden);
}

void Transformer::forward(const ModelInput& input, KvCache& cache, Workspace& workspace,
                          float* hidden) {
  const std::int64_t rows = input.rows();
  const std::size_t mark = workspace.mark();
  float* const normed = workspace.take<float>(rows * hidden_size);
  float* const branch = workspace.take<float>(rows * hidden_size);
  embed(input, workspace, branch, hidden);
  tables_.clear();
  for (const Rope& rope : ropes_) tables_.push_back(rope.table(backend_, workspace, input));
  const Step step{input, {input, tables_, cache, states_}, workspace, rows, hidden, normed, branch};
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const TraceSpan span = TraceSpan::of_layer(i);
    if (layers_[i].parallel) {
      run_parallel(layers_[i], step);
    } else {
      run_sequential(layers_[i], step);
    }
  }
  workspace.release_to(mark);
}

const float* Transformer::normed_input(const Step& step, const Norm& norm, bool in_place) const {
  if (norm.none()) return step.hidden;
  float* const out = in_place ? step.hidden : step.normed;
  norm.forward(backend_, step.hidden, step.rows, out);
  return out;
}

template <class Run>
void Transformer::add_branch(const Step& step, const float* x, const Norm& post, float multiplier,
                             Run&& run) const {
  if (post.none() && multiplier == 1.0f && x != step.hidden)
    return run(x, Epilogue::kAdd, step.hidden);
  run(x, Epilogue::kStore, step.branch);
  if (!post.none()) post.forward(backend_, step.branch, step.rows, step.branch);
  backend_.add_scaled(step.branch, multiplier, nullptr, step.rows, hidden_size, step.hidden);
}

void Transformer::run_sequential(const Layer& layer, const Step& step) const {
  const bool in_place = layer.residual_after_norm;
  add_branch(step, normed_input(step, layer.input_norm, in_place), layer.post_mixer_norm,
             layer.residual_multiplier, [&](const float* x, Epilogue epilogue, float* y) {
               layer.mixer->forward(backend_, step.workspace, step.context, x, epilogue, y);
             });
  normed_input(step, layer.mixer_sum_norm, true);
  if (!layer.mlp) return;
  add_branch(step, normed_input(step, layer.mlp_norm, in_place), layer.post_mlp_norm,
             layer.residual_multiplier, [&](const float* x, Epilogue epilogue, float* y) {
               layer.mlp->forward(backend_, step.workspace, x, step.rows, epilogue, y);
             });
  normed_input(step, layer.mlp_sum_norm, true);
}

// Both halves read the layer's input, so nothing is added to it before both are through.
void Transformer::run_parallel(const Layer& layer, const Step& step) const {
  const float* x = normed_input(step, layer.input_norm);
  layer.mixer->forward(backend_, step.workspace, step.context, x, Epilogue::kStore, step.branch);
  if (!layer.post_mixer_norm.none())
    layer.post_mixer_norm.forward(backend_, step.branch, step.rows, step.branch);
  if (layer.mlp) {
    if (!layer.mlp_norm.none()) x = normed_input(step, layer.mlp_norm);
    layer.mlp->forward(backend_, step.workspace, x, step.rows, Epilogue::kAdd, step.branch);
  }
  backend_.add_scaled(step.branch, layer.residual_multiplier, nullptr, step.rows, hidden_size,
                      step.hidden);
}

void Transformer::logits(const float* hidden, std::int64_t rows, Workspace& workspace,
                         float* logits) {
  const std::size_t mark = workspace.mark();
  const float* x = hidden;
  if (!final_norm_.none()) {
    float* const normed = workspace.take<float>(rows * hidden_size);
    final_norm_.forward(backend_, hidden, rows, normed);
    x = normed;
  }
  if (project_out_) {
    float* const narrow = workspace.take<float>(rows * embedding_size());
    backend_.linear(x, rows, *project_out_, narrow, Epilogue::kStore);
    x = narrow;
  }
  backend_.linear(x, rows, *head_, logits, Epilogue::kStore);
  if (spec_.logit_multiplier != 1.0f)
    backend_.map(MapKind::kScale, spec_.logit_multiplier, logits, rows, vocab_size);
  if (spec_.logit_soft_cap > 0.0f)
    backend_.map(MapKind::kSoftCap, spec_.logit_soft_cap, logits, rows, vocab_size);
  workspace.release_to(mark);
}

void Transformer::final_hidden(const float* hidden, std::int64_t rows, float* out) {
  if (final_norm_.none()) {
    std::copy_n(hidden, rows * hidden_size, out);
  } else {
    final_norm_.forward(backend_, hidden, rows, out);
  }
}

}  // namespace quire
