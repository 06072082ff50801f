#include "model/layers/moe.h"

#include <algorithm>
#include <utility>

#include "model/layers/expert_loader.h"
#include "model/layers/mlp.h"

namespace quire {

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

// outputs: [pairs, hidden], grouped.  An expert sees a row at most once, so at most `rows` of them.
void Moe::run_experts(Backend& backend, Workspace& workspace, const Groups& groups, const float* x,
                      std::int64_t rows, float* outputs) const {
  float* const inputs = workspace.take<float>(rows * hidden_);
  for (std::int32_t e = 0; e < route_.experts; ++e) {
    const std::int32_t begin = groups.begin[e];
    const std::int64_t count = groups.begin[e + 1] - begin;
    if (count == 0) continue;
    backend.gather_rows(x, {groups.row + begin, static_cast<std::size_t>(count)}, hidden_, inputs);
    if (route_.score == RouterScore::kSigmoidInput)
      backend.scale_rows(groups.weight + begin, count, hidden_, hidden_, inputs);
    experts_[static_cast<std::size_t>(e)]->forward(backend, workspace, inputs, count,
                                                   Epilogue::kStore, outputs + begin * hidden_);
  }
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
  run_experts(backend, workspace, groups, x, rows, outputs);
  if (route_.score == RouterScore::kSigmoidInput) std::fill(weights, weights + pairs, 1.0f);
  backend.combine(outputs, groups.place, weights, rows, route_.top_k, hidden_, epilogue, y);
  if (shared_) add_shared(backend, workspace, x, rows, y);
  workspace.release_to(mark);
}

std::int64_t Moe::scratch_floats_per_row() const {
  std::int64_t widest = 0;
  for (const auto& expert : experts_) widest = std::max(widest, expert->scratch_floats_per_row());
  if (shared_) widest = std::max(widest, shared_->scratch_floats_per_row());
  const std::int64_t shared = shared_gate_ ? hidden_ + 2 : 0;
  return route_.experts + route_.top_k * (hidden_ + 5) + hidden_ + shared + widest;
}

}  // namespace quire
