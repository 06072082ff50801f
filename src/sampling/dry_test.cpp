// DRY against its definition, on random sequences of few tokens.
#include "sampling/dry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "sampling/row_math.h"
#include "sampling/sampler.h"
#include "sampling/token_history.h"

namespace quire {
namespace {

constexpr std::size_t kVocab = 12;

// How far from the end the last breaker stops: tokens behind it.
std::size_t oracle_limit(const std::vector<TokenId>& window, const DryBreakers& breakers) {
  for (std::size_t start = window.size(); start-- > 0;) {
    const auto found = breakers.find(window[start]);
    if (found == breakers.end()) continue;
    std::size_t best = 0;  // length of the longest breaker that stands here
    for (const auto& tail : found->second) {
      bool here = start + tail.size() < window.size();
      for (std::size_t i = 0; here && i < tail.size(); ++i) here = window[start + 1 + i] == tail[i];
      if (here) best = std::max(best, tail.size() + 1);
    }
    if (best > 0) return window.size() - start - best;
  }
  return window.size();
}

// Penalty of each token: for every place that the token stands at, the longest run before it that
// equals the window's end.
std::map<TokenId, double> oracle(const std::vector<TokenId>& window, const SamplingParams& p,
                                 const DryBreakers& breakers) {
  const auto allowed = static_cast<std::size_t>(p.dry_allowed_length);
  const std::size_t limit = oracle_limit(window, breakers);
  std::map<TokenId, double> out;
  if (window.size() <= allowed || limit < allowed) return out;
  std::map<TokenId, std::size_t> longest;
  for (std::size_t next = 1; next < window.size(); ++next) {
    std::size_t length = 0;
    while (length < next && window[next - 1 - length] == window[window.size() - 1 - length])
      ++length;
    length = std::min(length, limit);
    if (length < allowed) continue;
    auto& entry = longest[window[next]];
    entry = std::max(entry, length);
  }
  for (const auto& [token, length] : longest) {
    const auto found = breakers.find(token);
    if (found != breakers.end() && std::any_of(found->second.begin(), found->second.end(),
                                               [](const auto& tail) { return tail.empty(); }))
      continue;
    out[token] = p.dry_multiplier * std::pow(p.dry_base, static_cast<double>(length - allowed));
  }
  return out;
}

TEST(Dry, EqualsItsDefinition) {
  std::mt19937 rng(3);
  int penalised = 0;
  for (int run = 0; run < 3000; ++run) {
    SamplingParams p;
    p.dry_multiplier = 0.8;
    p.dry_base = 1.0 + (run % 4) * 0.25;
    p.dry_allowed_length = run % 5;
    const auto alphabet = static_cast<TokenId>(2 + run % 7);
    std::vector<TokenId> window(rng() % 60);
    for (TokenId& token : window) token = static_cast<TokenId>(rng()) % alphabet;
    for (TokenId& token : window) token = std::abs(token);
    auto breakers = std::make_shared<DryBreakers>();
    if (run % 3 == 1) (*breakers)[5] = {{}};
    if (run % 3 == 2) (*breakers)[1] = {{0}, {0, 1}, {1, 1, 1}};
    p.dry_breakers = breakers;
    std::vector<float> row(kVocab, 1.0f);
    row[2] = kMinusInfinity;
    auto expected = row;
    for (const auto& [token, cost] : oracle(window, p, *breakers)) {
      expected[static_cast<std::size_t>(token)] -= static_cast<float>(cost);
      ++penalised;
    }
    apply_dry(row, p, window);
    for (std::size_t i = 0; i < kVocab; ++i) {
      if (i == 2) {
        EXPECT_EQ(row[i], kMinusInfinity);
      } else {
        ASSERT_NEAR(row[i], expected[i], 1e-4f * (1 + std::abs(expected[i]))) << run << " " << i;
      }
    }
  }
  EXPECT_GT(penalised, 2000);
}

TEST(Dry, LongRepeatsStayFinite) {
  SamplingParams p;
  p.dry_multiplier = 1e6;
  p.dry_base = 4;
  const std::vector<TokenId> window(5000, 1);
  std::vector<float> row(kVocab, 1.0f);
  apply_dry(row, p, window);
  EXPECT_TRUE(std::isfinite(row[1]));
  EXPECT_LT(row[1], -1e30f);
  EXPECT_EQ(row[0], 1.0f);
}

TEST(Dry, WindowIsTheEndOfPromptAndOutput) {
  SamplingParams p;
  p.bad_words = {{1, 2}};
  EXPECT_TRUE(TokenHistory(p, std::vector<TokenId>{1, 2}, {}).dry_window().empty());
  p.dry_multiplier = 1;
  for (const int last_n : {-1, 0, 1, 3, 50}) {
    p.dry_penalty_last_n = last_n;
    TokenHistory history(p, std::vector<TokenId>{7, 8, 9}, std::vector<TokenId>{10});
    std::vector<TokenId> all = {7, 8, 9, 10};
    for (TokenId token = 0; token < 40; ++token) {
      history.append(token);
      all.push_back(token);
      const std::size_t count = last_n < 0 ? all.size() : std::min<std::size_t>(last_n, all.size());
      const auto window = history.dry_window();
      ASSERT_EQ(std::vector<TokenId>(window.begin(), window.end()),
                std::vector<TokenId>(all.end() - static_cast<std::ptrdiff_t>(count), all.end()));
      ASSERT_EQ(history.tail().size(), 1u);
      ASSERT_EQ(history.tail()[0], token);
    }
  }
}

TEST(Dry, BreaksALoopOfTheSampler) {
  SamplingParams p;
  p.temperature = 0;
  p.dry_multiplier = 2;
  p.dry_allowed_length = 2;
  Sampler sampler(kVocab);
  sampler.add_slot(SlotId{0}, p, std::vector<TokenId>{3, 4, 5, 3, 4}, {});
  std::vector<float> row(kVocab, 0.0f);
  row[5] = 1.0f;  // would be chosen, but repeats 3, 4, 5
  row[6] = 0.5f;
  EXPECT_EQ(sampler.sample(SlotId{0}, row, {}, nullptr), 6);
}

}  // namespace
}  // namespace quire
