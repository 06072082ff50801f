// Choice and weights of experts against the papers' rules, written out by hand for small rows; sums
// of experts' rows.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cpu/testing.h"

namespace quire {
namespace {

using testing_support::make_backend;
using testing_support::random_floats;
using testing_support::same_bits;

struct Choice {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};
Choice route(const RouteArgs& args, const std::vector<float>& logits) {
  const auto backend = make_backend(*available_kernels().front(), 2);
  const auto rows = static_cast<std::int64_t>(logits.size()) / args.experts;
  Choice choice;
  choice.ids.resize(static_cast<std::size_t>(rows * args.top_k));
  choice.weights.resize(choice.ids.size());
  backend->route(args, logits.data(), rows, choice.ids.data(), choice.weights.data());
  return choice;
}
RouteArgs args_of(RouterScore score, std::int32_t experts, std::int32_t top_k) {
  RouteArgs args;
  args.score = score;
  args.experts = experts;
  args.top_k = top_k;
  return args;
}
float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
using Ids = std::vector<std::int32_t>;

TEST(Route, SoftmaxThenTopKWithTiesToTheLowerExpert) {
  RouteArgs args = args_of(RouterScore::kSoftmax, 4, 2);
  const Choice choice = route(args, {1, 3, 2, 3, 0, 0, 0, 0});
  EXPECT_EQ(choice.ids, (Ids{1, 3, 0, 1}));
  const float sum = std::exp(1.0f) + 2 * std::exp(3.0f) + std::exp(2.0f);
  EXPECT_NEAR(choice.weights[0], std::exp(3.0f) / sum, 1e-6);
  EXPECT_EQ(choice.weights[3], 0.25f);
  args.normalize = true;
  args.weight_scale = 3;
  EXPECT_NEAR(route(args, {1, 3, 2, 3}).weights[1], 1.5, 1e-6);
}

TEST(Route, SoftmaxOfTopK) {
  const Choice choice = route(args_of(RouterScore::kSoftmaxOfTopK, 3, 2), {1, -5, 2});
  EXPECT_EQ(choice.ids, (Ids{2, 0}));
  EXPECT_NEAR(choice.weights[0], sigmoid(1), 1e-6);
  EXPECT_NEAR(choice.weights[1], sigmoid(-1), 1e-6);
}

TEST(Route, SigmoidWithABiasForTheChoiceOnly) {
  RouteArgs args = args_of(RouterScore::kSigmoid, 4, 2);
  const float bias[] = {0, 0, 0.9f, 0};
  args.correction_bias = bias;
  const Choice choice = route(args, {1, 2, -1, 0});
  EXPECT_EQ(choice.ids, (Ids{2, 1}));
  EXPECT_NEAR(choice.weights[0], sigmoid(-1), 1e-6);
  EXPECT_NEAR(choice.weights[1], sigmoid(2), 1e-6);
}

TEST(Route, OnlyExpertsOfTheBestGroups) {
  RouteArgs args = args_of(RouterScore::kSigmoid, 6, 2);
  args.groups = 3;
  args.top_groups = 1;
  // Groups {-9, 4}, {3, 3}, {-1, -1}: the first has the best expert, the second the best pair.
  const std::vector<float> logits = {-9, 4, 3, 3, -1, -1};
  EXPECT_EQ(route(args, logits).ids, (Ids{1, 0}));
  args.group_score_top2 = true;
  EXPECT_EQ(route(args, logits).ids, (Ids{2, 3}));
}

TEST(Route, SparseMixerTakesOneAfterTheOther) {
  RouteArgs args = args_of(RouterScore::kSparseMixer, 3, 2);
  args.jitter = 0.1f;  // experts within a fifth of the best take part
  const Choice choice = route(args, {2.0f, 1.9f, 1.0f});
  EXPECT_EQ(choice.ids, (Ids{0, 1}));
  EXPECT_NEAR(choice.weights[0], sigmoid(0.1f), 1e-6);
  EXPECT_NEAR(choice.weights[1], 1, 1e-6);
}

TEST(Route, SigmoidForTheInput) {
  const Choice choice = route(args_of(RouterScore::kSigmoidInput, 3, 1), {0, 2, 1});
  EXPECT_EQ(choice.ids, (Ids{1}));
  EXPECT_NEAR(choice.weights[0], sigmoid(2), 1e-6);
}

TEST(Route, NanLogitsStillGiveDistinctExperts) {
  const float nan = std::nanf("");
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSparseMixer}) {
    EXPECT_EQ(route(args_of(score, 3, 3), {nan, nan, nan}).ids, (Ids{0, 1, 2}));
  }
}

TEST(Combine, AddsRowsInOrderOfRank) {
  constexpr std::int64_t kRows = 40, kN = 100;
  const auto x = random_floats(2 * kRows * kN, 1), weights = random_floats(2 * kRows, 2),
             old = random_floats(kRows * kN, 3);
  std::vector<std::int32_t> index;
  for (std::int32_t i = 0; i < 2 * kRows; ++i) index.push_back((i * 7 + 3) % (2 * kRows));
  std::vector<float> stored[2], added[2];
  for (const int threads : {1, 3}) {
    const auto backend = make_backend(*available_kernels().front(), threads);
    std::vector<float>& y = stored[threads / 2];
    y.assign(kRows * kN, NAN);
    backend->combine(x.data(), index.data(), weights.data(), kRows, 2, kN, Epilogue::kStore,
                     y.data());
    added[threads / 2] = old;
    backend->combine(x.data(), index.data(), weights.data(), kRows, 2, kN, Epilogue::kAdd,
                     added[threads / 2].data());
  }
  EXPECT_TRUE(same_bits(stored[0], stored[1]));
  EXPECT_TRUE(same_bits(added[0], added[1]));
  for (std::size_t r = 0; r < kRows; ++r) {
    const float* first = x.data() + index[2 * r] * kN;
    const float* second = x.data() + index[2 * r + 1] * kN;
    const float sum = std::fma(second[5], weights[2 * r + 1], first[5] * weights[2 * r]);
    EXPECT_EQ(stored[0][r * kN + 5], sum);
  }
}

TEST(Norm, HeadsInsideARowWithWeightsOfTheirOwn) {
  constexpr std::int64_t kHeads = 3, kDim = 8, kStride = 40;
  const auto x = random_floats(2 * kStride, 1), w = random_floats(kHeads * kDim, 2);
  const auto backend = make_backend(*available_kernels().front(), 1);
  NormArgs args;
  args.weight = w.data();
  args.own_weights = true;
  args.n = kDim;
  args.groups = kHeads;
  args.x_stride = args.y_stride = kStride;
  std::vector<float> y = x;
  backend->norm(args, y.data() + 4, 2, y.data() + 4);
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < kStride; ++i) {
      const std::size_t at = r * kStride + i;
      if (i < 4 || i >= 4 + kHeads * kDim) {
        EXPECT_EQ(y[at], x[at]);
        continue;
      }
      const std::size_t head = (i - 4) / kDim;
      double squares = 0;
      for (std::size_t d = 0; d < kDim; ++d)
        squares += std::pow(x[r * kStride + 4 + head * kDim + d], 2.0);
      EXPECT_NEAR(y[at], x[at] / std::sqrt(squares / kDim + 1e-5) * w[i - 4], 1e-5);
    }
  }
}

}  // namespace
}  // namespace quire
