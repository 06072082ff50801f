#include "model/layers/moe.h"

#include <algorithm>
#include <utility>

#include "model/layers/expert_loader.h"
#include "model/layers/mlp.h"

namespace quire {
namespace {

// Backends pad rows, by less than this.
constexpr std::int64_t kMostPadding = 256;
std::int64_t padded_inputs(std::int64_t inputs) { return inputs + kMostPadding; }

}  // namespace

Result<std::unique_ptr<FeedForward>> Moe::load(WeightLoader& loader, const std::string& prefix,
                                               std::int64_t hidden, const MoeSpec& spec) {
  if (spec.experts < 1 || spec.experts > 1024 || spec.top_k < 1 || spec.top_k > spec.experts ||
      (spec.groups > 1 && spec.experts % spec.groups != 0))
    return make_error(ErrorCode::kBadFile,
                      "{} experts in {} groups, {} for each token: at most 1024, in equal groups",
                      spec.experts, std::max(spec.groups, 1), spec.top_k);
  auto moe = std::make_unique<Moe>();
  moe->hidden_ = hidden;
  QUIRE_ASSIGN(
      moe->router_,
      loader.linear({{prefix + spec.router, spec.experts, false, {}}}, hidden,
                    spec.router_bias ? Bias::kRequired : Bias::kIfPresent, Precision::kAsStored));
  if (!spec.correction_bias.empty()) {
    const std::string name = prefix + spec.correction_bias;  // ERNIE has it as a row of a matrix
    const Shape shape = loader.rank(name) == 2 ? Shape{1, spec.experts} : Shape{spec.experts};
    QUIRE_ASSIGN(moe->correction_bias_, loader.tensor(name, shape));
  }
  RouteArgs& route = moe->route_;
  route.score = spec.score;
  route.experts = spec.experts;
  route.top_k = spec.top_k;
  route.normalize = spec.normalize;
  route.normalize_epsilon = spec.normalize_epsilon;
  route.weight_scale = spec.weight_scale;
  route.groups = spec.groups;
  route.top_groups = spec.top_groups;
  route.group_score_top2 = spec.group_score_top2;
  route.jitter = spec.jitter;
  if (!moe->correction_bias_.empty()) route.correction_bias = moe->correction_bias_.data();
  QUIRE_ASSIGN(moe->experts_, load_experts(loader, prefix, hidden, spec));
  for (const std::unique_ptr<Mlp>& expert : moe->experts_) {
    moe->ups_.push_back(&expert->up());
    moe->downs_.push_back(&expert->down());
  }
  loader.reserve_inputs(spec.top_k * padded_inputs(std::max(hidden, moe->downs_[0]->inputs)));
  if (spec.has_shared) {
    QUIRE_ASSIGN(moe->shared_, Mlp::load(loader, prefix, hidden, spec.shared));
    if (!spec.shared_gate.empty()) {
      QUIRE_ASSIGN(moe->shared_gate_,
                   loader.linear({{prefix + spec.shared_gate, 1, false, {}}}, hidden,
                                 Bias::kIfPresent, Precision::kAsStored));
    }
  }
  return moe;
}

Moe::Groups Moe::group(Workspace& workspace, const std::int32_t* ids, const float* weights,
                       std::int64_t rows) const {
  const std::int64_t pairs = rows * route_.top_k;
  Groups groups;
  groups.begin = workspace.take<std::int32_t>(route_.experts + 1);
  groups.row = workspace.take<std::int32_t>(pairs);
  groups.weight = workspace.take<float>(pairs);
  groups.place = workspace.take<std::int32_t>(pairs);
  std::int32_t* const next = workspace.take<std::int32_t>(route_.experts);
  std::fill(groups.begin, groups.begin + route_.experts + 1, 0);
  for (std::int64_t i = 0; i < pairs; ++i) ++groups.begin[ids[i] + 1];
  for (std::int32_t e = 0; e < route_.experts; ++e) {
    groups.begin[e + 1] += groups.begin[e];
    next[e] = groups.begin[e];
  }
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int32_t place = next[ids[i]]++;
    groups.place[i] = place;
    groups.row[place] = static_cast<std::int32_t>(i / route_.top_k);
    groups.weight[place] = weights[i];
  }
  return groups;
}

// outputs: [pairs, hidden], grouped.
void Moe::run_experts(Backend& backend, Workspace& workspace, const Groups& groups, const float* x,
                      std::int64_t pairs, float* outputs) const {
  const std::span<const std::int32_t> begin(groups.begin, ups_.size() + 1);
  float* const inputs = workspace.take<float>(pairs * hidden_);
  backend.gather_rows(x, {groups.row, static_cast<std::size_t>(pairs)}, hidden_, inputs);
  if (route_.score == RouterScore::kSigmoidInput)
    backend.scale_rows(groups.weight, pairs, hidden_, hidden_, inputs);
  const std::int64_t width = downs_[0]->inputs;
  float* const projected = workspace.take<float>(pairs * ups_[0]->outputs);
  float* const active = workspace.take<float>(pairs * width);
  backend.linear_experts(inputs, begin, ups_, projected);
  backend.activate(experts_[0]->activation(), projected, pairs, width, active);
  backend.linear_experts(active, begin, downs_, outputs);
}

void Moe::add_shared(Backend& backend, Workspace& workspace, const float* x, std::int64_t rows,
                     float* y) const {
  if (!shared_gate_) return shared_->forward(backend, workspace, x, rows, Epilogue::kAdd, y);
  float* const gate = workspace.take<float>(rows);
  float* const factors = workspace.take<float>(rows);
  float* const output = workspace.take<float>(rows * hidden_);
  backend.linear(x, rows, *shared_gate_, gate, Epilogue::kStore);
  std::fill(factors, factors + rows, 1.0f);
  backend.sigmoid_mul(gate, 1, rows, 1, factors);
  shared_->forward(backend, workspace, x, rows, Epilogue::kStore, output);
  backend.add_scaled(output, 1.0f, factors, rows, hidden_, y);
}

void Moe::forward(Backend& backend, Workspace& workspace, const float* x, std::int64_t rows,
                  Epilogue epilogue, float* y) const {
  const std::size_t mark = workspace.mark();
  const std::int64_t pairs = rows * route_.top_k;
  float* const logits = workspace.take<float>(rows * route_.experts);
  std::int32_t* const ids = workspace.take<std::int32_t>(pairs);
  float* const weights = workspace.take<float>(pairs);
  float* const outputs = workspace.take<float>(pairs * hidden_);
  backend.linear(x, rows, *router_, logits, Epilogue::kStore);
  backend.route(route_, logits, rows, ids, weights);
  const Groups groups = group(workspace, ids, weights, rows);
  run_experts(backend, workspace, groups, x, pairs, outputs);
  if (route_.score == RouterScore::kSigmoidInput) std::fill(weights, weights + pairs, 1.0f);
  backend.combine(outputs, groups.place, weights, rows, route_.top_k, hidden_, epilogue, y);
  if (shared_) add_shared(backend, workspace, x, rows, y);
  workspace.release_to(mark);
}

std::int64_t Moe::scratch_floats_per_row() const {
  const std::int64_t shared = shared_ ? shared_->scratch_floats_per_row() : 0;
  const std::int64_t shared_gate = shared_gate_ ? hidden_ + 2 : 0;
  const std::int64_t pair = 5 + 2 * hidden_ + ups_[0]->outputs + downs_[0]->inputs;
  return route_.experts + route_.top_k * pair + shared + shared_gate;
}

}  // namespace quire
