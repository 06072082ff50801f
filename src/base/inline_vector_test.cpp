#include "base/inline_vector.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quire {
namespace {

using Three = InlineVector<int, 3>;

TEST(InlineVector, HoldsWhatAVectorHolds) {
  for (int n = 0; n < 10; ++n) {
    Three filled;
    std::vector<int> want(static_cast<std::size_t>(n));
    std::iota(want.begin(), want.end(), 5);
    for (const int value : want) filled.push_back(value);
    const Three made(want);
    for (const Three* vector : {static_cast<const Three*>(&filled), &made}) {
      EXPECT_EQ(std::vector<int>(vector->begin(), vector->end()), want);
      EXPECT_EQ(vector->size(), want.size());
      EXPECT_EQ(vector->empty(), want.empty());
      if (n > 0) {
        EXPECT_EQ(vector->back(), want.back());
      }
    }
    Three copy = filled;
    copy.push_back(99);
    EXPECT_EQ(copy.back(), 99);
    EXPECT_EQ(filled.size(), want.size());
    copy.clear();
    EXPECT_TRUE(copy.empty());
    copy.push_back(7);
    EXPECT_EQ(copy.front(), 7);
    EXPECT_EQ(copy.size(), 1u);
  }
}

TEST(InlineVector, MovesKeepTheElements) {
  Three from;
  for (int i = 0; i < 5; ++i) from.push_back(i);
  from.push_back(5);
  const Three to = std::move(from);
  EXPECT_EQ(std::vector<int>(to.begin(), to.end()), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace quire
