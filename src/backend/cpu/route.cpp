// Which experts a token goes to, and with which weights. A few hundred numbers per row: plain code,
// one row at a time. Sums run over experts in ascending order; ties go to the lower expert.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "base/trace.h"
#include "kernels/cpu/ref/vector_math.h"

namespace quire {
namespace {

constexpr std::int32_t kMaxExperts = 1024;
constexpr float kNever = -std::numeric_limits<float>::infinity();
using Row = std::array<float, kMaxExperts>;

// Takes experts out one after the other, each once whatever the scores are (NaN loses to every
// number).
class Chooser {
 public:
  // The best of those left.
  std::int32_t take(const float* scores, std::int32_t n) {
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < n; ++e) {
      if (taken_[static_cast<std::size_t>(e)]) continue;
      if (best < 0 || scores[e] > scores[best] ||
          (std::isnan(scores[best]) && !std::isnan(scores[e])))
        best = e;
    }
    taken_[static_cast<std::size_t>(best)] = true;
    return best;
  }
  bool taken(std::int32_t e) const { return taken_[static_cast<std::size_t>(e)]; }

 private:
  std::array<bool, kMaxExperts> taken_{};
};

void softmax(const float* x, std::int32_t n, float* y) {
  const float top = *std::max_element(x, x + n);
  float sum = 0.0f;
  for (std::int32_t i = 0; i < n; ++i) sum += y[i] = ref::exp(x[i] - top);
  for (std::int32_t i = 0; i < n; ++i) y[i] /= sum;
}

// Group-limited choice (DeepSeek V2 and V3): experts outside the best groups are out.
void limit_groups(const RouteArgs& args, float* choice) {
  const std::int32_t size = args.experts / args.groups;
  Row group_scores;
  for (std::int32_t g = 0; g < args.groups; ++g) {
    const float* const group = choice + g * size;
    float first = kNever, second = kNever;
    for (std::int32_t e = 0; e < size; ++e) {
      if (group[e] > first) {
        second = first;
        first = group[e];
      } else {
        second = std::max(second, group[e]);
      }
    }
    group_scores[static_cast<std::size_t>(g)] =
        args.group_score_top2 && size > 1 ? first + second : first;
  }
  Chooser chooser;
  for (std::int32_t i = 0; i < args.top_groups; ++i) chooser.take(group_scores.data(), args.groups);
  for (std::int32_t g = 0; g < args.groups; ++g) {
    if (!chooser.taken(g)) std::fill(choice + g * size, choice + (g + 1) * size, kNever);
  }
}

// SparseMixer at inference (Liu et al., 2023; PhiMoE): each expert is the best of those left,
// weighted by the softmax over those whose logit is near it.
void route_sparse_mixer(const RouteArgs& args, const float* logits, std::int32_t* ids,
                        float* weights) {
  Row left, near;
  std::copy(logits, logits + args.experts, left.data());
  Chooser chooser;
  for (std::int32_t k = 0; k < args.top_k; ++k) {
    const std::int32_t best = chooser.take(left.data(), args.experts);
    const float top = left[static_cast<std::size_t>(best)];
    for (std::size_t e = 0; e < static_cast<std::size_t>(args.experts); ++e) {
      const float factor = std::max(std::fabs(logits[e]), top);
      near[e] = (top - logits[e]) / factor > 2.0f * args.jitter ? kNever : left[e];
    }
    softmax(near.data(), args.experts, near.data());
    ids[k] = best;
    weights[k] = near[static_cast<std::size_t>(best)];
    left[static_cast<std::size_t>(best)] = kNever;
  }
}

void route_row(const RouteArgs& args, const float* logits, std::int32_t* ids, float* weights) {
  if (args.score == RouterScore::kSparseMixer)
    return route_sparse_mixer(args, logits, ids, weights);
  Row scores, choice;
  switch (args.score) {
    case RouterScore::kSoftmax:
      softmax(logits, args.experts, scores.data());
      break;
    case RouterScore::kSigmoid:
      for (std::int32_t e = 0; e < args.experts; ++e)
        scores[static_cast<std::size_t>(e)] = 1.0f / ref::sigmoid_divisor(logits[e]);
      break;
    default:
      std::copy(logits, logits + args.experts, scores.data());
      break;
  }
  for (std::size_t e = 0; e < static_cast<std::size_t>(args.experts); ++e)
    choice[e] = scores[e] + (args.correction_bias != nullptr ? args.correction_bias[e] : 0.0f);
  if (args.groups > 1) limit_groups(args, choice.data());
  Chooser chooser;
  for (std::int32_t k = 0; k < args.top_k; ++k) ids[k] = chooser.take(choice.data(), args.experts);
  for (std::int32_t k = 0; k < args.top_k; ++k)
    weights[k] = scores[static_cast<std::size_t>(ids[k])];
  if (args.score == RouterScore::kSoftmaxOfTopK) softmax(weights, args.top_k, weights);
  if (args.score == RouterScore::kSigmoidInput) {
    for (std::int32_t k = 0; k < args.top_k; ++k)
      weights[k] = 1.0f / ref::sigmoid_divisor(weights[k]);
  }
  float divisor = 1.0f;
  if (args.normalize) {
    divisor = args.normalize_epsilon;
    for (std::int32_t k = 0; k < args.top_k; ++k) divisor += weights[k];
  }
  for (std::int32_t k = 0; k < args.top_k; ++k)
    weights[k] = weights[k] / divisor * args.weight_scale;
}

}  // namespace

void CpuBackend::route(const RouteArgs& args, const float* logits, std::int64_t rows,
                       std::int32_t* ids, float* weights) {
  const TraceSpan span(TraceKind::kRoute, rows);
  QUIRE_CHECK(args.top_k <= args.experts && args.experts <= kMaxExperts,
              "the best {} of {} experts; at most {} are built for", args.top_k, args.experts,
              kMaxExperts);
  for_rows(rows, std::int64_t{args.experts} * (args.top_k + 16),
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t r = begin; r < end; ++r) {
               route_row(args, logits + r * args.experts, ids + r * args.top_k,
                         weights + r * args.top_k);
             }
           });
}

}  // namespace quire
