// The rule against its definition, on random sequences of two tokens.
#include "engine/repetition.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace quire {
namespace {

bool oracle(const std::vector<TokenId>& tokens, const RepetitionRule& rule) {
  for (int size = rule.min_pattern_size; size <= rule.max_pattern_size; ++size) {
    const int n = static_cast<int>(tokens.size());
    if (size * rule.min_count > n) continue;
    const std::vector<TokenId> pattern(tokens.end() - size, tokens.end());
    bool all = true;
    for (int i = 0; i < rule.min_count; ++i) {
      const auto begin = tokens.end() - size * (i + 1);
      all = all && std::vector<TokenId>(begin, begin + size) == pattern;
    }
    if (all) return true;
  }
  return false;
}

TEST(Repetition, EqualsItsDefinition) {
  std::mt19937 rng(4);
  int found = 0;
  for (int run = 0; run < 5000; ++run) {
    std::vector<TokenId> tokens(rng() % 24);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % 2);
    const RepetitionRule rule{static_cast<std::int32_t>(1 + rng() % 9),
                              static_cast<std::int32_t>(1 + rng() % 4),
                              static_cast<std::int32_t>(2 + rng() % 3)};
    ASSERT_EQ(repeats(tokens, rule), oracle(tokens, rule)) << run;
    found += repeats(tokens, rule) ? 1 : 0;
  }
  EXPECT_GT(found, 500);
  EXPECT_LT(found, 4500);
}

}  // namespace
}  // namespace quire
