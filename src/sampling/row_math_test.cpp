// Row arithmetic against obvious loops.
#include "sampling/row_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace quire {
namespace {

std::vector<float> random_scores(std::size_t size, unsigned seed, bool coarse) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> row(size);
  for (float& x : row) x = coarse ? std::round(normal(rng)) : normal(rng);  // coarse: many ties
  return row;
}

TEST(RowMath, MaskedWordsKeepTheIdsWhoseBitIsSet) {
  std::mt19937 rng(3);
  std::vector<std::uint32_t> mask{0, ~0u, 1, 1u << 31};
  while (mask.size() < 100) mask.push_back(static_cast<std::uint32_t>(rng()));
  const std::vector<float> row = random_scores(mask.size() * 32, 4, false);
  std::vector<float> masked = row;
  mask_words(masked.data(), mask.data(), mask.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool kept = ((mask[i / 32] >> (i % 32)) & 1u) != 0;
    ASSERT_EQ(masked[i], kept ? row[i] : kMinusInfinity) << i;
  }
}

TEST(RowMath, ExpIsCloseToLibm) {
  for (float y = -90; y <= 0; y += 0.00317f) {
    const double expected = y >= -87 ? std::exp(static_cast<double>(y)) : 0.0;
    EXPECT_NEAR(exp_nonpositive(y), expected, expected * 2.5e-7) << y;
  }
  EXPECT_EQ(exp_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(exp_nonpositive(kMinusInfinity), 0.0f);
  EXPECT_EQ(exp_nonpositive(std::nanf("")), 0.0f);
}

TEST(RowMath, SanitizeTakesOutNanAndInfinity) {
  std::vector<float> row = {std::nanf(""), 1, std::numeric_limits<float>::infinity(),
                            kMinusInfinity, -3};
  sanitize_row(row);
  EXPECT_EQ(row, (std::vector<float>{kMinusInfinity, 1, std::numeric_limits<float>::max(),
                                     kMinusInfinity, -3}));
}

TEST(RowMath, MaxIsTheLowestIdOfTheGreatest) {
  for (const std::size_t size : {1u, 7u, 8u, 127u, 128u, 129u, 1000u, 4096u}) {
    const auto row = random_scores(size, static_cast<unsigned>(size), true);
    const auto expected = std::max_element(row.begin(), row.end());
    EXPECT_EQ(row_max(row).value, *expected);
    EXPECT_EQ(row_max(row).id, expected - row.begin());
  }
  const std::vector<float> none(100, kMinusInfinity);
  EXPECT_EQ(row_max(none).value, kMinusInfinity);
  EXPECT_EQ(row_max(none).id, 0);
  const std::vector<float> nan = {std::nanf(""), std::nanf(""), -5};
  EXPECT_EQ(row_max(nan).id, 2);
}

TEST(RowMath, Sums) {
  for (const std::size_t size : {0u, 1u, 9u, 511u, 512u, 513u, 5000u}) {
    const auto row = random_scores(size, 3, false);
    EXPECT_NEAR(row_sum(row), std::accumulate(row.begin(), row.end(), 0.0), 1e-9);
    double expected = 0;
    const float max = row_max(row).value;
    for (const float x : row)
      expected += std::exp(static_cast<double>(x) - static_cast<double>(max));
    EXPECT_NEAR(row_sum_exp(row, size == 0 ? 0 : max), expected, 1e-6 * expected);
  }
}

TEST(RowMath, FindAtLeastGivesEveryPlaceInOrder) {
  for (const std::size_t size : {0u, 1u, 15u, 63u, 64u, 65u, 1000u}) {
    auto row = random_scores(size, 5, false);
    if (size > 20) {
      row[7] = std::nanf("");
      row[20] = kMinusInfinity;
      row[size - 1] = 2.5f;
    }
    for (const float floor : {-1e30f, 0.0f, 2.5f, 1e30f}) {
      std::vector<std::uint32_t> expected, got(size);
      for (std::size_t i = 0; i < size; ++i) {
        if (row[i] >= floor) expected.push_back(static_cast<std::uint32_t>(i));
      }
      got.resize(find_at_least(row, floor, got.data()));
      EXPECT_EQ(got, expected) << size << " " << floor;
    }
  }
}

TEST(RowMath, TopIdsEqualAFullSort) {
  for (const bool coarse : {false, true}) {
    auto row = random_scores(3000, 11, coarse);
    row[17] = kMinusInfinity;
    row[18] = std::nanf("");
    std::vector<TokenId> all(row.size());
    std::iota(all.begin(), all.end(), 0);
    const auto value = [&](TokenId id) {
      const float x = row[static_cast<std::size_t>(id)];
      return std::isnan(x) ? kMinusInfinity : x;
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](TokenId a, TokenId b) { return value(a) > value(b); });
    for (const std::int32_t count : {0, 1, 2, 20, 511, 512, 513, 2999, 3000, 5000}) {
      std::vector<TokenId> got;
      top_ids(row, count, &got);
      const auto kept = std::min<std::ptrdiff_t>(count, 3000);
      EXPECT_EQ(got, std::vector<TokenId>(all.begin(), all.begin() + kept)) << count << coarse;
    }
  }
}

}  // namespace
}  // namespace quire
