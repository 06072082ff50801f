// The draw against a full sort, and its distribution.
#include "sampling/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "sampling/rng.h"
#include "sampling/row_math.h"

namespace quire {
namespace {

// Typical sampling as its paper reads: by distance of -log p from the entropy.
void oracle_typical(std::vector<double>* weight, double typical_p) {
  const double total = std::accumulate(weight->begin(), weight->end(), 0.0);
  double entropy = 0;
  for (const double w : *weight) entropy -= w > 0 ? w / total * std::log(w / total) : 0;
  std::vector<std::size_t> order(weight->size());
  std::iota(order.begin(), order.end(), 0u);
  const auto distance = [&](std::size_t i) {
    return (*weight)[i] > 0 ? std::abs(-std::log((*weight)[i] / total) - entropy) : 1e300;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return distance(a) < distance(b); });
  double before = 0;
  for (const std::size_t i : order) {
    const double own = (*weight)[i];
    if (before >= typical_p * total) (*weight)[i] = 0;
    before += own;
  }
}

// XTC: all but the last of those that reach the threshold go.
void oracle_xtc(const std::vector<float>& logits, float max, double threshold,
                std::vector<double>* weight) {
  std::vector<double> plain(logits.size(), 0.0);  // at temperature 1
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if ((*weight)[i] > 0) plain[i] = static_cast<double>(exp_nonpositive(logits[i] - max));
  }
  const double total = std::accumulate(plain.begin(), plain.end(), 0.0);
  std::vector<std::size_t> reached;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if ((*weight)[i] > 0 && plain[i] >= threshold * total) reached.push_back(i);
  }
  std::stable_sort(reached.begin(), reached.end(),
                   [&](auto a, auto b) { return logits[a] > logits[b]; });
  for (std::size_t i = 0; i + 1 < reached.size(); ++i) (*weight)[reached[i]] = 0;
}

// The filters as their definition reads: sort, cut, renormalise. Weights by id; 0: dropped.
std::vector<double> oracle_weights(const std::vector<float>& logits, const SamplingParams& p,
                                   bool xtc = false) {
  const float max = *std::max_element(logits.begin(), logits.end());
  const auto inverse = static_cast<float>(1.0 / p.temperature);
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<float> scaled(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) scaled[i] = (logits[i] - max) * inverse;
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return scaled[static_cast<std::size_t>(a)] > scaled[static_cast<std::size_t>(b)];
  });
  if (p.top_k > 0 && static_cast<std::size_t>(p.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(p.top_k));
  }
  std::vector<double> weight(logits.size(), 0.0);
  for (const TokenId id : order) {
    const float w = exp_nonpositive(scaled[static_cast<std::size_t>(id)]);
    if (w < static_cast<float>(p.min_p)) continue;
    weight[static_cast<std::size_t>(id)] = static_cast<double>(w);
  }
  if (p.typical_p < 1) oracle_typical(&weight, p.typical_p);
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  double before = 0;
  for (const TokenId id : order) {
    double& w = weight[static_cast<std::size_t>(id)];
    const double own = w;
    if (p.top_p < 1 && before >= p.top_p * total) w = 0;
    before += own;
  }
  if (xtc) oracle_xtc(logits, max, p.xtc_threshold, &weight);
  return weight;
}

TokenId oracle_pick(const std::vector<double>& weight, double u) {
  const double target = u * std::accumulate(weight.begin(), weight.end(), 0.0);
  double sum = 0;
  TokenId last = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    if (weight[i] == 0) continue;
    sum += weight[i];
    last = static_cast<TokenId>(i);
    if (sum > target) break;
  }
  return last;
}

std::vector<float> row_of(std::size_t size, unsigned seed, float spread, bool coarse) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 1);  // scaled below: a spread of 0 makes equal values
  std::vector<float> row(size);
  for (float& x : row) x = coarse ? std::round(spread * normal(rng)) : spread * normal(rng);
  return row;
}

TEST(Draw, EqualsTheOracleForEveryFilter) {
  std::mt19937 rng(5);
  int runs = 0;
  for (const std::size_t size : {1u, 5u, 64u, 700u, 3000u}) {
    for (const float spread : {0.0f, 0.5f, 3.0f}) {
      for (const bool coarse : {false, true}) {
        auto row = row_of(size, static_cast<unsigned>(rng()), spread, coarse);
        if (size > 5) row[3] = kMinusInfinity;
        for (const double temperature : {0.05, 0.7, 1.0, 2.0}) {
          for (const int top_k : {0, 1, 4, 513, 600, 5000}) {
            for (const double top_p : {1e-6, 0.337, 0.911, 1.0}) {
              SamplingParams p;
              p.temperature = temperature;
              p.top_k = top_k;
              p.top_p = top_p;
              p.min_p = runs % 3 == 0 ? 0.07 : 0.0;
              const auto weight = oracle_weights(row, p);
              for (int i = 0; i < 4; ++i) {
                const double u = random_uniform(9, static_cast<std::uint64_t>(runs),
                                                static_cast<std::uint32_t>(i));
                ASSERT_EQ(draw_token(row, p, {u}), oracle_pick(weight, u))
                    << size << " " << spread << " T " << temperature << " k " << top_k << " p "
                    << top_p;
              }
              ++runs;
            }
          }
        }
      }
    }
  }
}

TEST(Draw, EqualsTheOracleForTypicalAndXtc) {
  std::mt19937 rng(6);
  std::uint64_t runs = 0;
  for (const std::size_t size : {1u, 5u, 64u, 700u, 3000u}) {
    for (const float spread : {0.5f, 3.0f}) {
      auto row = row_of(size, static_cast<unsigned>(rng()), spread, false);
      if (size > 5) row[3] = kMinusInfinity;
      for (const double typical_p : {1e-6, 0.2, 0.73, 0.95, 1.0}) {
        for (const double threshold : {0.0, 0.004, 0.1, 0.6}) {
          for (const bool xtc : {false, true}) {
            SamplingParams p;
            p.temperature = runs % 2 == 0 ? 0.7 : 1.3;
            p.typical_p = typical_p;
            p.top_k = runs % 3 == 0 ? 40 : 0;
            p.top_p = runs % 5 == 0 ? 0.9 : 1.0;
            p.xtc_probability = 0.5;
            p.xtc_threshold = threshold;
            const auto weight = oracle_weights(row, p, xtc);
            for (std::uint32_t i = 0; i < 4; ++i) {
              const double u = random_uniform(9, runs, i);
              ASSERT_EQ(draw_token(row, p, {u, xtc ? 0.49 : 0.5}), oracle_pick(weight, u))
                  << size << " " << spread << " typical " << typical_p << " xtc " << xtc << " "
                  << threshold;
            }
            ++runs;
          }
        }
      }
    }
  }
}

TEST(Draw, TellsTheRowItDrewFrom) {
  const auto row = row_of(900, 31, 2.0f, false);
  for (const int top_k : {0, 7, 600}) {
    SamplingParams p;
    p.temperature = 0.8;
    p.top_k = top_k;
    p.top_p = top_k == 600 ? 0.9 : 1.0;
    const auto weight = oracle_weights(row, p);
    std::vector<float> processed;
    draw_token(row, p, {0.3}, &processed);
    ASSERT_EQ(processed.size(), row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (weight[i] == 0) {
        EXPECT_EQ(processed[i], kMinusInfinity) << i;
      } else {
        EXPECT_NEAR(processed[i], row[i] / 0.8f, 1e-5f) << i;
      }
    }
  }
}

TEST(Draw, NeverGivesAWeightlessToken) {
  std::vector<float> row(1000, kMinusInfinity);
  row[500] = 1;
  row[501] = 1;
  SamplingParams p;
  EXPECT_EQ(draw_token(row, p, {0.0}), 500);
  EXPECT_EQ(draw_token(row, p, {std::nextafter(1.0, 0.0)}), 501);
  row[999] = -200;  // its weight underflows
  EXPECT_EQ(draw_token(row, p, {std::nextafter(1.0, 0.0)}), 501);
}

// Shares that round to no weight at all still keep the first candidate.
TEST(Draw, TheSmallestSharesKeepOneCandidate) {
  const auto row = row_of(512, 3, 3.0f, false);
  SamplingParams params;
  for (const double typical_p : {1.0, 1e-6, 1e-300, 5e-324}) {
    params.typical_p = typical_p;
    params.top_p = 1e-6;
    const TokenId want = draw_token(row, params, {0.5, 1.0}, nullptr);
    for (const double top_p : {1e-300, 5e-324}) {
      params.top_p = top_p;
      EXPECT_EQ(draw_token(row, params, {0.5, 1.0}, nullptr), want) << typical_p << " " << top_p;
    }
  }
}

TEST(Draw, HugeLogitsAndTemperatureStayFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::vector<float> row = {-kLargest, kLargest, 0};
  SamplingParams p;
  p.temperature = 1e-5;
  EXPECT_EQ(draw_token(row, p, {0.99}), 1);
  p.temperature = 1e300;
  p.top_p = 0.9;
  EXPECT_GE(draw_token(row, p, {0.5}), 0);
}

// Pearson's statistic of draws against the oracle's probabilities must stay under the 0.1 %
// quantile.
TEST(Draw, FollowsTheDistribution) {
  const auto row = row_of(40, 21, 1.5f, false);
  for (const int variant : {0, 1, 2, 3, 4, 5}) {
    SamplingParams p;
    p.temperature = variant == 1 ? 1.7 : 0.9;
    p.top_k = variant == 2 ? 12 : 0;
    p.top_p = variant == 3 ? 0.8 : 1.0;
    p.typical_p = variant == 4 ? 0.7 : 1.0;
    p.xtc_probability = variant == 5 ? 0.3 : 0.0;
    p.xtc_threshold = 0.05;
    auto weight = oracle_weights(row, p);
    double total = std::accumulate(weight.begin(), weight.end(), 0.0);
    if (variant == 5) {  // a mixture: three draws in ten are XTC's
      const auto cut = oracle_weights(row, p, true);
      const double cut_total = std::accumulate(cut.begin(), cut.end(), 0.0);
      ASSERT_LT(cut_total, 0.9 * total);
      for (std::size_t i = 0; i < row.size(); ++i)
        weight[i] = 0.7 * weight[i] / total + 0.3 * cut[i] / cut_total;
      total = 1;
    }
    constexpr int kDraws = 40000;
    std::vector<int> seen(row.size(), 0);
    for (int i = 0; i < kDraws; ++i) {
      ++seen[static_cast<std::size_t>(
          draw_token(row, p,
                     {random_uniform(77, static_cast<std::uint64_t>(i), 0),
                      random_uniform(77, static_cast<std::uint64_t>(i), 1)}))];
    }
    double chi2 = 0, rest_expected = 0, rest_seen = 0;
    int cells = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double expected = weight[i] / total * kDraws;
      if (expected < 8) {  // rare ones together
        rest_expected += expected;
        rest_seen += seen[i];
        if (weight[i] == 0) {
          EXPECT_EQ(seen[i], 0) << i;
        }
        continue;
      }
      chi2 += (seen[i] - expected) * (seen[i] - expected) / expected;
      ++cells;
    }
    if (rest_expected > 1)
      chi2 += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    const double freedom = cells;
    EXPECT_LT(chi2, freedom + 3.3 * std::sqrt(2 * freedom) + 6) << "variant " << variant;
  }
}

TEST(Rng, MatchesThePublishedVectors) {
  // Known answers of Philox4x32-10 from its authors' test set.
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (std::array<std::uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(Rng, IsUniform) {
  std::map<int, int> cells;
  double sum = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double u = random_uniform(i % 10, i / 10, 0);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++cells[static_cast<int>(u * 20)];
    sum += u;
  }
  EXPECT_NEAR(sum / 20000, 0.5, 0.01);
  double chi2 = 0;
  for (const auto& [cell, count] : cells) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi2, 43.8);  // 19 degrees of freedom, 0.1 %
}

}  // namespace
}  // namespace quire
