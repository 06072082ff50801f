#include "engine/answer_lengths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace quire {
namespace {

TEST(AnswerLengths, FallsFromOneAndNeverReachesNothing) {
  AnswerLengths lengths;
  for (int i = 0; i < 300; ++i) lengths.record(i % 40, false);
  double last = 1;
  for (std::int32_t n = 0; n < 200000; n = n < 100 ? n + 1 : n * 3 / 2) {
    const double share = lengths.share_longer(n);
    EXPECT_GT(share, 0) << n;
    EXPECT_LE(share, last) << n;
    last = share;
  }
}

TEST(AnswerLengths, KnowsNothingAtFirstAndExpectsMoreOfTheSame) {
  const AnswerLengths lengths;
  EXPECT_NEAR(lengths.share_longer(0), 1, 0.02);
  EXPECT_NEAR(lengths.share_longer(128), 0.5, 0.03);
  EXPECT_NEAR(lengths.share_longer(10000) / lengths.share_longer(5000), 0.5, 0.03);
}

TEST(AnswerLengths, LearnsADistribution) {
  AnswerLengths lengths;
  std::mt19937 random(1);
  std::lognormal_distribution<double> draw(5, 0.8);
  for (int i = 0; i < 3000; ++i) lengths.record(static_cast<std::int32_t>(draw(random)), false);
  for (const int n : {20, 50, 100, 148, 300, 600}) {
    const double longer = 0.5 * std::erfc((std::log(n) - 5) / (0.8 * std::sqrt(2.0)));
    EXPECT_NEAR(lengths.share_longer(n), longer, 0.05) << n;
  }
}

TEST(AnswerLengths, ForgetsOldAnswers) {
  AnswerLengths lengths;
  for (int i = 0; i < 2000; ++i) lengths.record(1000, false);
  EXPECT_GT(lengths.share_longer(500), 0.95);
  for (std::size_t i = 0; i < AnswerLengths::kRemembered; ++i) lengths.record(10, false);
  EXPECT_LT(lengths.share_longer(500), 0.02);
}

// Nine of ten clients cut every answer at 16 tokens; the others see that half of those that come to
// 16 go on to 400.
TEST(AnswerLengths, ACutAnswerIsNoShortAnswer) {
  AnswerLengths lengths;
  for (int i = 0; i < 1000; ++i) {
    if (i % 10 != 0) {
      lengths.record(16, true);
    } else {
      lengths.record(i % 20 == 0 ? 400 : 40, false);
    }
  }
  EXPECT_GT(lengths.share_longer(20), 0.9);
  EXPECT_NEAR(lengths.share_longer(100), 0.5, 0.1);
  EXPECT_LT(lengths.share_longer(500), 0.1);
}

}  // namespace
}  // namespace quire
